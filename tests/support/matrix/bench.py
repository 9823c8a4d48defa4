"""What one cell of the fault matrix works on, and what a verb under test has to say of itself."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from millgate.brokers.base import Broker, State
from millgate.errors import BrokerUnavailable
from millgate.message import Message
from millgate.queues import Subscription
from millgate.stats import TopicStats
from support.builders import some_messages
from support.faults import Fault
from support.matrix.road import DEADLINE, Ground
from support.working import Hand

#: Seconds beyond a deadline that a loaded machine may need.
MARGIN: Final = 1.0
_numbers = itertools.count(1)


class Lost:
    """In place of an answer: the call ended with BrokerUnavailable or one of its kinds."""

    def __repr__(self) -> str:
        return "lost"


LOST: Final = Lost()


@dataclass(frozen=True, slots=True)
class Case:
    """A verb under test: the call, and what must hold after each call, given all answers so far."""

    call: Callable[[], Any]
    check: Callable[[Sequence[Any]], None]
    extra: float = 0.0  # seconds that the call itself is meant to last


class Bench:
    """A topic with some of everything: two messages wait, one runs, one is dead."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.near = ground.near
        self.topic = f"t{next(_numbers)}"
        self.subscription = Subscription((self.topic,))
        self.proxy, self.url = ground.proxied()
        #: Through the proxy.
        self.far = ground.open(self.url)
        self.fault: Fault | None = None
        self._closing: list[Callable[[], object]] = [self.proxy.close, self.far.close]
        self._timers: list[threading.Timer] = []
        self.hand = Hand(self.near)
        doomed, runs, *waits = self.messages(4)
        self.near.publish([doomed])
        self.hand.bury(self.hand.one(self.topic))
        self.near.publish([runs])
        self.running = self.hand.one(self.topic)
        self.near.publish(waits)
        self.dead = doomed.id
        self.waiting = [message.id for message in waits]
        self.far.stats()  # connected before the fault

    @property
    def gentle(self) -> bool:
        """Whether the server can be reached again at once, so that the call must have an answer."""
        return self.fault not in (Fault.STALL, Fault.DROP)

    def messages(self, count: int) -> list[Message]:
        """Messages of this topic that nobody has seen."""
        return some_messages(count, topic=self.topic)

    def counts(self) -> TopicStats:
        """The topic's row, whose numbers add up."""
        row = self.near.stats().topics[self.topic]
        parts = (row.waiting, row.delayed, row.leased, row.completed, row.failed)
        assert row.enqueued == sum(part or 0 for part in parts), f"lost or doubled: {row}"
        return row

    def state(self, name: str) -> State:
        """Where a message is."""
        return self.near.states([name])[0].state

    def another(self, queue: str) -> Broker:
        """A further client through the proxy, of another queue."""
        self.ground.serve(queue)
        made = self.ground.open(self.url, queue)
        self._closing.append(made.close)
        return made

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something while the call is under way."""
        timer = threading.Timer(seconds, action)
        self._timers.append(timer)
        timer.start()

    def timed(self, case: Case) -> Any:
        """The answer of a call, or LOST; it must come in time."""
        begun = monotonic()
        try:
            answer = case.call()
        except BrokerUnavailable:
            answer = LOST
        took = monotonic() - begun
        allowed = DEADLINE + case.extra + MARGIN
        assert took < allowed, f"took {took:.2f} s, {allowed:.2f} s were allowed ({answer!r})"
        for timer in self._timers:
            timer.join()
        return answer

    def conserved(self) -> None:
        """All that has not ended can be run, each message once, and then nothing is left."""
        self.near.pause(self.topic, False)
        held = [seen.id for seen in self.near.peek(self.topic, State.RUNNING, 100)]
        assert sorted(self.near.requeue(held)) == sorted(held)
        waiting = [seen.id for seen in self.near.peek(self.topic, State.WAITING, 100)]
        started = self.ground.sweeper.run_all(self.topic)
        assert len(set(started)) == len(started), f"handed out twice: {started}"
        assert set(waiting) <= set(started), f"never handed out: {set(waiting) - set(started)}"
        row = self.counts()
        assert (row.waiting, row.delayed, row.leased) == (0, 0, 0)

    def close(self) -> None:
        """End the client, then the proxy; the queue's lists must not grow with every cell."""
        self.near.unregister(self.hand.worker)
        while self._closing:
            self._closing.pop()()


def known(answers: Sequence[Any]) -> list[Any]:
    """The answers that came."""
    return [answer for answer in answers if answer is not LOST]
