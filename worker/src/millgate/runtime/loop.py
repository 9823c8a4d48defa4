"""The claim loop: settle what has ended, claim what can start, hand it over; wait when there is neither."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from millgate.brokers.base import Ask, Broker, Claimed
from millgate.clock import Clock
from millgate.errors import BrokerError, BrokerRefused, InvalidInput, MillgateError, QueueFull
from millgate.fleet import WorkerInfo, WorkerRef, WorkerState
from millgate.outcome import Failure, Reason
from millgate.queues import Subscription
from millgate.runtime import portion
from millgate.runtime.connection import Connection
from millgate.runtime.intake import Intake
from millgate.runtime.lease import Leases
from millgate.runtime.ledger import Entry, Ledger, Run
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.runtime.pulse import Pulse
from millgate.settlement import Bury

#: Seconds that one wait for work lasts at most; the broker wakes it before that.
_WAIT: Final = 30.0
#: A retry or delayed message due within this many seconds keeps a burst going.
_BURST_WAIT: Final = 30.0
#: Seconds that results may gather, when the next ones come at once anyway.
_GATHER: Final = 0.001
#: So many runs in hand are a flow; so many results are a batch.
_FLOW: Final = 24
_REFUSED_PAUSE: Final = 5.0
#: … until a queue that was full is tried again.
_FULL: Final = 1.0
#: Claims that every settled run earns beside the slots, and their bound.
_GROWTH: Final = 2
_WIDEST: Final = 1_000_000


class Loop:
    """Runs in the broker thread. `wake` and `stop_claiming` come from others."""

    def __init__(  # noqa: PLR0913 -- the composition root hands everything in
        self,
        worker: WorkerRef,
        info: WorkerInfo,
        subscription: Subscription,
        *,
        connection: Connection,
        ledger: Ledger,
        leases: Leases,
        intake: Intake,
        pulse: Pulse,
        journal: Journal,
        metrics: Metrics,
        clock: Clock,
        burst: bool = False,
    ) -> None:
        self.target = 0  # runs that may be held, as the io thread counts it
        #: Two more bounds: the slots, widened by what has ended since there was last nothing to do, and one call's.
        self._window, self._at_once = info.slots, portion.FIRST
        self.start: Callable[[list[Run]], None] = lambda _runs: None
        self.on_nothing_left: Callable[[], None] = lambda: None
        self.on_superseded: Callable[[], None] = lambda: None
        self.turned = clock.monotonic()  # when it last came round, for liveness
        self._worker = worker
        self._info = info
        self._subscription = subscription
        self._connection = connection
        self._ledger = ledger
        self._leases = leases
        self._intake = intake
        self._pulse = pulse
        self._journal = journal
        self._metrics = metrics
        self._clock = clock
        self._burst = burst
        self._bell = threading.Event()
        self._in_broker = False
        self._claiming, self._ending = True, False
        self._held_back: list[Entry] = []  # refused by a full queue, tried again later
        self._revision: int | None = None  # of policies to be read

    # --- from other threads ----------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to settle, or room."""
        if not self._bell.is_set():
            self._bell.set()
        if self._in_broker:
            self._connection.broker.interrupt()

    def wake_if_idle(self) -> None:
        """There is room; whoever waits in the broker for work knows that already."""
        if not self._in_broker:
            self._bell.set()

    def aim(self, target: int) -> None:
        """So many runs may be held from now on."""
        grown = target > self.target
        self.target = target
        if grown:
            self.wake_if_idle()

    def follow(self, revision: int) -> None:
        """Policies of this revision are there."""
        self._revision = revision
        self.wake()

    def stop_claiming(self) -> None:
        """Claim nothing from now on; settlements go on."""
        self._claiming = False
        self.wake()

    def end(self) -> None:
        """Settle what is there, then end."""
        self._claiming = False
        self._ending = True
        self.wake()

    # --- the broker thread -----------------------------------------------------------------------

    def run(self) -> None:
        """Until told to end and nothing is left to settle."""
        while not (self._ending and not self._ledger.waiting and not self._held_back):
            self.turned = self._clock.monotonic()
            try:
                self._turn()
            except BrokerRefused as error:
                self._pause(max(_REFUSED_PAUSE, self._connection.failed(error)))
            except BrokerError as error:
                self._pause(self._connection.failed(error))

    def _pause(self, seconds: float) -> None:
        if self._ending:  # the drain's deadline is above us
            seconds = min(seconds, 0.5)
        self._bell.clear()
        self._bell.wait(seconds)

    def _turn(self) -> None:
        self._bell.clear()
        if self._pulse.look(self._ledger.shortest_lease()):
            self._leases.renew()
        if self._revision is not None:
            revision, self._revision = self._revision, None
            self._intake.follow(revision)
        room = self._room()
        entries = self._take(room)
        if not room and not entries:
            self._bell.wait(_WAIT)
            return
        claimed = self._call(room, entries)
        if claimed is None:
            if self._held_back:
                self._bell.wait(_FULL)
            return
        self._leases.note_state(claimed.state)
        self._accept(claimed, asked=room > 0)
        if len(claimed.claims) < room:  # all there is is ours: to claim again would be for nothing
            self._wait(claimed)

    def _room(self) -> int:
        if not self._claiming or self._leases.state is WorkerState.FENCED:
            return 0
        return min(self._at_once, max(0, min(self.target, self._window) - self._ledger.active))

    def _take(self, room: int) -> list[Entry]:
        """What is to be settled. While much is in flight and little has ended, a moment makes one call of many."""
        flows = self._ledger.active > _FLOW and 2 * room < self.target
        if flows and self._ledger.waiting < _FLOW:
            self._clock.sleep(_GATHER)
        held, self._held_back = self._held_back, []
        return held + self._ledger.take()

    def _call(self, room: int, entries: Sequence[Entry]) -> Claimed | None:
        settlements = [entry.settlement for entry in entries]
        broker = self._connection.broker
        try:
            if not room:
                stale = broker.settle(settlements)
                claimed = Claimed(stale=tuple(stale), state=self._leases.state)
            else:
                self._metrics.add("millgate_claim_calls_total")
                claimed = broker.claim(self._worker, Ask(self._subscription, room), settlements)
        except (InvalidInput, QueueFull):
            self._settle_singly(entries)
            return None
        except BaseException:
            self._ledger.back(entries)
            raise
        self._connection.answered()
        self._settled(entries, claimed.stale)
        return claimed

    def _settled(self, entries: Sequence[Entry], stale: Sequence[str]) -> None:
        self._ledger.done(entries)
        self._window = min(self._window + _GROWTH * len(entries), _WIDEST)
        for entry in entries if stale else ():
            if entry.run.claim.id in stale:
                self._metrics.add("millgate_leases_lost_total")
                self._journal.say(
                    "warning", "lease was lost, the end of this run counts for nothing", entry.run
                )

    def _settle_singly(self, entries: Sequence[Entry]) -> None:
        """One settlement of a batch is refused, mostly for what it publishes: the others must not wait for it."""
        for position, entry in enumerate(entries):
            try:
                stale = self._connection.broker.settle([entry.settlement])
            except QueueFull:
                self._journal.say("warning", "queue is full, the next step waits", entry.run)
                self._held_back.append(entry)
            except InvalidInput as error:
                self._refuse(entry, error)
            except BaseException:
                self._ledger.back(entries[position:])
                raise
            else:
                self._settled([entry], stale)

    def _refuse(self, entry: Entry, error: MillgateError) -> None:
        failure = Failure(f"millgate.{type(error).__name__}", str(error))
        burial = Bury(entry.run.claim.ref, Reason.RESULT_REFUSED, failure)
        if isinstance(entry.settlement, Bury):
            self._ledger.done([entry])
            self._journal.say("error", "settlement refused", entry.run, error=str(error))
            return
        self._journal.say("error", "result refused, task buried", entry.run, error=str(error))
        self._ledger.back([Entry(entry.run, burial)])

    def _accept(self, claimed: Claimed, *, asked: bool) -> None:
        if claimed.claims:
            self._metrics.claimed(claimed.claims)
            self._at_once = portion.portion(claimed.claims)
            self._leases.expect(min(claim.lease for claim in claimed.claims))
            ready, callbacks = self._intake.receive(claimed.claims, claimed.revision)
            if ready:
                self.start(ready)
            if callbacks:
                self.start(self._intake.gather(callbacks))
        elif self._burst and asked and self._finished(claimed):
            self.on_nothing_left()

    def _finished(self, claimed: Claimed) -> bool:
        if not self._ledger.empty or claimed.state is not WorkerState.ACTIVE:
            return False
        return claimed.next_due is None or claimed.next_due > _BURST_WAIT

    def _wait(self, claimed: Claimed) -> None:
        # what comes next may be of another kind: nobody should find a worker's buffer full of long tasks
        self._window = self._info.slots
        if not claimed.claims:
            self._metrics.add("millgate_empty_claims_total")
        if claimed.state is WorkerState.UNKNOWN:
            self._introduce()
            return
        if claimed.state is WorkerState.FENCED:
            self._bell.wait(_WAIT)
            return
        timeout = _WAIT if claimed.next_due is None else min(_WAIT, max(0.001, claimed.next_due))
        self._in_broker = True
        try:
            if not self._bell.is_set():
                self._connection.broker.wait_for_work(self._subscription, timeout)
        finally:
            self._in_broker = False

    def _introduce(self) -> None:
        """Enter the registry again: it was forgotten, unless a newer worker has the name."""
        broker = self._connection.broker
        for row in broker.stats().workers:
            if row.name == self._worker.name and row.incarnation != self._worker.incarnation:
                self._journal.say("error", "another worker has taken this name", name=row.name)
                self._claiming = False
                self.on_superseded()
                return
        broker.register(self._worker, self._info)
        self._journal.say("warning", "the broker had forgotten this worker; registered again")

    def introduce(self) -> Broker:
        """Prepare the broker and enter the registry, for the first time; answers the broker. Raises MillgateError."""
        broker = self._connection.broker
        broker.setup()
        broker.register(self._worker, self._info)
        self._leases.note_state(WorkerState.ACTIVE)
        self._connection.answered()
        return broker
