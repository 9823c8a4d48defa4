"""Keeps the leases: renews them in batches with the registry row, and says which are lost, cancelled, or fenced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from millgate.brokers.base import Extended
from millgate.clock import Clock
from millgate.errors import BrokerError
from millgate.fleet import Beat, WorkerRef, WorkerState
from millgate.runtime.connection import Connection
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.policies import Policies
from millgate.runtime.pulse import Pulse

#: Seconds between two signs of life, at most; a cancelled run hears of it with one.
_LONGEST: Final = 5.0
#: After a failed renewal the next one comes this soon.
_RETRY: Final = 1.0


class Leases:
    """`renew` may be called from any thread; the renew thread does it in time."""

    def __init__(
        self,
        worker: WorkerRef,
        connection: Connection,
        ledger: Ledger,
        *,
        policies: Policies,
        pulse: Pulse,
        clock: Clock,
    ) -> None:
        self.beat: Callable[[], Beat] = Beat
        self.on_lost: Callable[[Sequence[Run]], None] = lambda _runs: None
        self.on_cancelled: Callable[[Sequence[Run]], None] = lambda _runs: None
        self.on_state: Callable[[WorkerState], None] = lambda _state: None
        #: The policies have another revision than those that were read. To read them is not done here: it may take as
        #: long as a call may, in which leases run out.
        self.on_revision: Callable[[int], None] = lambda _revision: None
        self.state = WorkerState.UNKNOWN
        self._worker = worker
        self._connection = connection
        self._ledger = ledger
        self._policies = policies
        self._pulse = pulse
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._bell = threading.Event()
        self._nudged = False
        self._due = clock.monotonic() + _LONGEST
        self._stopping = False

    def run(self) -> None:
        """The renew thread: every third of the shortest lease, or when nudged."""
        while not self._stopping:
            left = self._due - self._clock.monotonic()
            if left > 0 and not self._nudged:
                self._bell.wait(left)
                self._bell.clear()
                continue
            self._nudged = False
            self._due = float("inf")  # a claim that comes in meanwhile brings it forward
            wait = _RETRY
            try:
                self.renew()
                wait = self._interval()
            except BrokerError as error:
                wait = min(self._connection.failed(error), _RETRY, self._interval())
            finally:
                self._due = min(self._due, self._clock.monotonic() + wait)

    def _interval(self) -> float:
        lease = self._ledger.shortest_lease()
        return _LONGEST if lease is None else min(_LONGEST, lease / 3)

    def expect(self, lease: float) -> None:
        """A claim with this lease came in: be there in time."""
        due = self._clock.monotonic() + lease / 3
        if due < self._due:
            self._due = due
            self._bell.set()

    def nudge(self) -> None:
        """Renew now: something changed that the fleet should know."""
        self._nudged = True
        self._bell.set()

    def stop(self) -> None:
        """End the renew thread."""
        self._stopping = True
        self._bell.set()

    def renew(self) -> Extended:
        """Renew everything that is held, and act on the answer. Raises BrokerError."""
        with self._one_at_a_time:
            runs = self._ledger.runs()
            refs = [run.claim.ref for run in runs]
            answer = self._connection.broker.extend(self._worker, refs, self.beat())
            self._connection.answered()
            self._act(answer, runs)
            self._pulse.validated()
            return answer

    def _act(self, answer: Extended, runs: list[Run]) -> None:
        if answer.lost:
            # before anything else is settled
            lost = [run for run in _oldest(runs, answer.lost) if self._ledger.forget(run)]
            if lost:
                self.on_lost(lost)
        if answer.cancelled:
            self.on_cancelled([run for run in runs if run.claim.id in answer.cancelled])
        self.note_state(answer.state)
        if answer.revision != self._policies.revision:
            self.on_revision(answer.revision)

    def note_state(self, state: WorkerState) -> None:
        """What the broker thinks of this worker, as the newest answer says."""
        if state is not self.state:
            self.state = state
            self.on_state(state)


def _oldest(runs: Sequence[Run], lost: Sequence[str]) -> list[Run]:
    """The runs of these ids; where this worker was given an id a second time, the earlier run."""
    found: dict[str, Run] = {}
    for run in runs:
        known = found.get(run.claim.id)
        if run.claim.id in lost and (known is None or run.claim.attempt < known.claim.attempt):
            found[run.claim.id] = run
    return list(found.values())
