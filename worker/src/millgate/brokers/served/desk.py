"""Carries out the calls of one turn together: journal first, then the state, then the answers.

It knows no wire: calls come in with the line that they came by, answers go out the same way.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from logging import getLogger
from typing import Any, Final, Protocol

from millgate.brokers.served import early, reports, values, verbs
from millgate.brokers.served.answers import failure, success
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.engine import Call, Engine
from millgate.brokers.served.waiting import Parked, Waiting
from millgate.errors import BrokerError, BrokerUnavailable, MillgateError, UnsupportedByBroker
from millgate.queues import Subscription

_PUBLISH: Final = "publish"
_WAIT_FOR_WORK: Final = "wait_for_work"
_WAIT: Final = "wait"
_SERVER: Final = "server"
#: What workers say while they work.
_WORKERS: Final = frozenset({"register", "claim", "settle", "extend", "progress"})
#: Seconds after which all are woken for what the few that were woken have left.
_SECOND_LOOK: Final = 0.2
_SOON: Final = 0.001
_SLACK: Final = 64  # ends of calls that were answered, which are never worth a sweep
_LONGEST: Final = 1e9  # seconds that a call is parked; what is no number is less than that

log = getLogger("millgate.brokers")
#: Takes an answer to whatever line its call came by; each server has lines of its own kind.
Send = Callable[[Any, bytes], None]


class Journal(Protocol):
    """Where records are kept before anything comes of them."""

    def append(self, records: Sequence[bytes], *, on_disk: bool = True) -> None:
        """Store records, all or none. Raises BrokerUnavailable: nothing is stored."""


class Came:
    """A call, whose it is, its bytes as the journal keeps them, and the line that it came by."""

    __slots__ = ("call", "caller", "line", "payload")

    def __init__(self, line: Hashable, caller: Caller, payload: bytes) -> None:
        self.line = line
        self.caller = caller
        self.payload = payload
        self.call = Call.read(payload)


class Desk:
    """The broker without its wires. `send` takes answers; `info` says what the server is."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal | None,
        send: Send,
        info: Callable[[], dict[str, Any]],
        *,
        one_host: bool = False,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """`flush` lets go what `send` has kept so far."""
        self._flush = flush
        self._one_host = one_host  # whether a machine that fails takes all workers along
        self._engine = engine
        self._journal = journal
        self._send = send
        self._info = info
        self._waiting = Waiting()
        #: When parked calls are answered with nothing.
        self._ends: list[tuple[float, int, Parked]] = []
        self._serial = 0
        #: Queue → when, monotonic, its waiting workers are looked after again.
        self._looks: dict[str, float] = {}
        #: Of queues and what callers take, how many were woken before the store, this turn.
        self._foretold: dict[tuple[str, Subscription], int] = {}

    def turn(self, now: float, monotonic: float, calls: Sequence[Came]) -> None:
        """Let time pass up to `now`, carry out `calls`, answer them and whoever waited for what they changed.

        `now` is seconds since 1970, `monotonic` what parked calls' timeouts are measured by.
        """
        writes = [came for came in calls if came.call.verb in verbs.WRITES]
        if not writes:
            self._store_lapse(now)
        touched = self._due(now)
        self._foretell(writes)
        if writes and self._stored(now, writes):
            # all of it first: a line that fails must not keep what is stored from being carried out
            answers = [self._engine.apply(now, came.caller, came.call) for came in writes]
            for came, answer in zip(writes, answers, strict=True):
                self._send(came.line, answer)
            touched.update(dict.fromkeys(came.caller.queue for came in writes))
        for queue in touched:
            self._tell(now, monotonic, queue)
        for queue in [queue for queue, at in self._looks.items() if at <= monotonic]:
            self._wake(now, monotonic, queue, all_=True)
        for came in calls:
            if came.call.verb not in verbs.WRITES:
                self._look(now, monotonic, came)
        self._end_waits(monotonic)

    def leave(self, line: Hashable) -> None:
        """A line is gone, or its caller gave up waiting on it."""
        self._waiting.leave(line)

    def wake_in(self, now: float, monotonic: float) -> float | None:
        """Seconds until something happens by itself; None: nothing will."""
        ends = self._ends
        while ends and ends[0][2].gone:
            heapq.heappop(ends)
        times = [ends[0][0] - monotonic] if ends else []
        times += [at - monotonic for at in self._looks.values()]
        alarms = [core.next_event() for core in self._engine.queues.values()]
        next_alarm = min((alarm for alarm in alarms if alarm is not None), default=None)
        if next_alarm is not None:
            times.append(next_alarm - now)
        return max(0.0, min(times)) if times else None

    def _store_lapse(self, now: float) -> None:
        """Have stored that leases end before anybody hears of it."""
        if self._journal is None:
            return
        record = self._engine.lapse(now)
        if record is not None:
            with suppress(BrokerUnavailable):  # nor can a renewal be stored
                self._journal.append([record], on_disk=not self._one_host)

    def _due(self, now: float) -> dict[str, None]:
        """Let time pass in the queues where that alone brings something about; answer which."""
        due: dict[str, None] = {}
        for name, core in self._engine.queues.items():
            event = core.next_event()
            if event is not None and event <= now:
                core.tick(now)
                due[name] = None
        return due

    def _foretell(self, writes: Sequence[Came]) -> None:
        """Wake whoever waits for what is about to be stored: it comes for it while that is done.

        It finds nothing should that fail. Only what is sure to be claimable is foretold: a claim that is for nothing
        costs more than this saves.
        """
        self._foretold.clear()
        for came in writes if len(self._waiting) else ():
            if came.call.verb == _PUBLISH:
                self._foretell_one(came)
        if self._foretold:
            self._flush()

    def _foretell_one(self, came: Came) -> None:
        queue = came.caller.queue
        core = self._engine.core(queue)
        topics = early.topics(came.call.args)
        for subscription, parked in self._waiting.for_work(queue).items():
            count = sum(core.lets_start(topic, subscription) for topic in topics[: len(parked)])
            for one in parked[:count]:
                self._answer(one, True)
            if count:
                already = self._foretold.get((queue, subscription), 0)
                self._foretold[queue, subscription] = already + count

    def _stored(self, now: float, writes: Sequence[Came]) -> bool:
        """Put calls into the journal; when that fails, their callers are told, and nothing has happened."""
        if self._journal is None:
            return True
        engine = self._engine
        records = [
            engine.record(now, came.caller, came.payload)
            for came in writes
            if engine.remembered(came.caller, came.call.number) is None
        ]
        try:
            if records:
                on_disk = not (self._one_host and all(_of_workers_only(came) for came in writes))
                self._journal.append(records, on_disk=on_disk)
        except BrokerUnavailable as error:
            for came in writes:
                self._send(came.line, failure(came.call.number, error))
            return False
        return True

    def _tell(self, now: float, monotonic: float, queue: str) -> None:
        """Answer those who waited for what has just happened in a queue."""
        core = self._engine.core(queue)
        news = core.take_news()
        if not len(self._waiting):
            return
        for parked in self._waiting.for_ends(queue, news.ended):
            self._answer(parked, reports.from_states(core.states(now, parked.ids)))
        if news.topics:
            self._wake(now, monotonic, queue, all_=False)

    def _wake(self, now: float, monotonic: float, queue: str, *, all_: bool) -> None:
        """Wake waiting workers of a queue: as many as there is work for, or all that could claim."""
        core = self._engine.core(queue)
        left_out, soonest = False, math.inf
        for subscription, parked in self._waiting.for_work(queue).items():
            told = self._foretold.get((queue, subscription), 0)
            ready = max(0, core.ready(now, subscription) - told)
            count = len(parked) if all_ and ready else min(ready, len(parked))
            for one in parked[:count]:
                self._answer(one, True)
            if count < len(parked):
                left_out = left_out or count + told > 0
                due = core.next_due(now, subscription)
                soonest = min(soonest, math.inf if due is None else max(due, _SOON))
        # Who was woken may not come: it may have been stopped, or have another limit of its own.
        wait = min(soonest, _SECOND_LOOK) if left_out else soonest
        self._looks.pop(queue, None)
        if wait < math.inf:
            self._looks[queue] = monotonic + wait

    def _look(self, now: float, monotonic: float, came: Came) -> None:
        call = came.call
        if call.verb in verbs.READS:
            self._send(came.line, self._engine.look(now, came.caller, call))
        elif call.verb == _SERVER:
            self._send(came.line, success(call.number, self._info()))
        elif call.verb in (_WAIT, _WAIT_FOR_WORK):
            self._park(now, monotonic, came)
        else:
            error = UnsupportedByBroker(f"this broker has no verb {call.verb!r}")
            self._send(came.line, failure(call.number, error))

    def _park(self, now: float, monotonic: float, came: Came) -> None:
        call = came.call
        core = self._engine.core(came.caller.queue)
        try:
            wanted, timeout = call.args
            until = monotonic + min(_LONGEST, float(timeout))
            if call.verb == _WAIT_FOR_WORK:
                wanted = values.to_subscription(wanted)
                value: Any = True if core.claimable(now, wanted) else None
            else:
                states = core.states(now, wanted)
                final = any(state.state.final for state in states)
                value = reports.from_states(states) if final else None
        except MillgateError as error:
            self._send(came.line, failure(call.number, error))
            return
        except (TypeError, ValueError) as error:
            problem = BrokerError(f"{call.verb}: {error}")
            self._send(came.line, failure(call.number, problem))
            return
        parked = Parked(came.line, call.number, came.caller.queue, until, wanted)
        self._waiting.park(parked)
        if value is not None or until <= monotonic:
            self._answer(parked, value)
            return
        if parked.subscription is not None:
            self._look_again(monotonic, parked.queue, core.next_due(now, parked.subscription))
        self._serial += 1
        heapq.heappush(self._ends, (until, self._serial, parked))
        if len(self._ends) > 2 * len(self._waiting) + _SLACK:  # most were answered early
            self._ends = [end for end in self._ends if not end[2].gone]
            heapq.heapify(self._ends)

    def _look_again(self, monotonic: float, queue: str, due: float | None) -> None:
        """Look after a queue's waiting workers when time may have let something be claimed: a rate, for example."""
        if due is not None:
            at = monotonic + max(due, _SOON)
            self._looks[queue] = min(at, self._looks.get(queue, at))

    def _answer(self, parked: Parked, value: Any) -> None:
        if parked.gone:
            return
        self._waiting.leave(parked.line)
        self._send(parked.line, success(parked.number, value))

    def _end_waits(self, monotonic: float) -> None:
        ends = self._ends
        while ends and (ends[0][0] <= monotonic or ends[0][2].gone):
            self._answer(heapq.heappop(ends)[2], None)


def _of_workers_only(came: Came) -> bool:
    """Whether a call only says who works on what and how it went. On one host that ends when the host does: after a
    power cut no worker is left that a claim could be kept from, and what ended in the last moments runs again.
    """
    return came.call.verb in _WORKERS
