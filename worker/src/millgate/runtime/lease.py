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
from millgate.runtime.ledger import Ledger
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
        self.on_lost: Callable[[Sequence[str]], None] = lambda _ids: None
        self.on_cancelled: Callable[[Sequence[str]], None] = lambda _ids: None
        self.on_state: Callable[[WorkerState], None] = lambda _state: None
        self.state = WorkerState.UNKNOWN
        self._worker = worker
        self._connection = connection
        self._ledger = ledger
        self._policies = policies
        self._pulse = pulse
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._nudged = threading.Event()
        self._stopping = False

    def run(self) -> None:
        """The renew thread: every third of the shortest lease, or when nudged."""
        while not self._stopping:
            wait = self._interval()
            self._nudged.wait(wait)
            self._nudged.clear()
            if self._stopping:
                return
            try:
                self.renew()
            except BrokerError as error:
                pause = self._connection.failed(error)
                self._nudged.wait(min(pause, _RETRY, self._interval()))

    def _interval(self) -> float:
        lease = self._ledger.shortest_lease()
        return _LONGEST if lease is None else min(_LONGEST, lease / 3)

    def nudge(self) -> None:
        """Renew now: something changed that the fleet should know."""
        self._nudged.set()

    def stop(self) -> None:
        """End the renew thread."""
        self._stopping = True
        self._nudged.set()

    def renew(self) -> Extended:
        """Renew everything that is held, and act on the answer. Raises BrokerError."""
        with self._one_at_a_time:
            runs = self._ledger.runs()
            sent = self._clock.monotonic()
            refs = [run.claim.ref for run in runs]
            answer = self._connection.broker.extend(self._worker, refs, self.beat())
            self._connection.answered()
            for run in runs:
                run.expires = sent + run.claim.lease
            self._act(answer)
            self._pulse.validated()
            return answer

    def _act(self, answer: Extended) -> None:
        if answer.lost:
            self.on_lost(answer.lost)
        if answer.cancelled:
            self.on_cancelled(answer.cancelled)
        self.note_state(answer.state)
        if answer.revision != self._policies.revision:
            self._policies.refresh(self._connection.broker)

    def note_state(self, state: WorkerState) -> None:
        """What the broker thinks of this worker, as the newest answer says."""
        if state is not self.state:
            self.state = state
            self.on_state(state)
