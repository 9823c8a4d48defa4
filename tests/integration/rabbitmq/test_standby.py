"""Who waits for its turn has read all that was stored, whatever became of the streams meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millgate.brokers.rabbitmq.connection import connect
from millgate.brokers.rabbitmq.journal import Journal, write_snapshot
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.replica import Replica
from millgate.brokers.rabbitmq.standby import Standby
from millgate.brokers.rabbitmq.streams import Streams
from millgate.brokers.rabbitmq.url import parse
from millgate.brokers.served import frames, values
from millgate.brokers.served.caller import Caller
from millgate.clock import SystemClock
from support import servers
from support.builders import some_messages
from support.rabbitmq import fresh_queue

CALLER = Caller("client", "queue")


@pytest.fixture
def connection() -> Iterator[Callable[[], Any]]:
    """Makes connections to the server."""
    made: list[Any] = []
    clock = SystemClock()

    def make() -> Any:
        target = parse(servers.rabbitmq().url, {})
        made.append(connect(target, "test", clock, clock.monotonic() + 10))
        return made[-1]

    yield make
    for one in made:
        if one.is_open:
            one.close()


class Owner:
    """Writes calls into a journal that is followed by another one soon."""

    def __init__(self, connection: Any, names: Names) -> None:
        self.streams = Streams(connection)
        self.journal = Journal(names, smallest=20_000)
        self.journal.take_over(self.streams)
        self.number = 0

    def publish(self, times: int) -> None:
        engine = self.journal.replica.engine
        for _ in range(times):
            self.number += 1
            call = [
                self.number,
                self.number,
                "publish",
                [values.from_messages(some_messages(20)), None],
            ]
            record = engine.record(float(self.number), CALLER, frames.pack(call))
            self.journal.append([record])
            engine.replay(record)

    def rotate(self) -> None:
        """Begin the next journal, its snapshot complete at once."""
        name = self.journal.rotate()
        size = write_snapshot(
            self.streams, name, self.journal.head.term, self.journal.replica.engine.dump()
        )
        self.journal.written(name, size)


def test_a_standby_follows_over_journals_that_begin_and_are_removed(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(3)
    replica = Replica()
    standby = Standby(connection(), names, replica)
    for _ in range(3):
        owner.publish(5)
        standby.step(0.3)
        assert replica.engine.dump() == owner.journal.replica.engine.dump()
        owner.rotate()
        owner.publish(2)
        standby.step(0.3)
        if standby.lost:  # the journal was removed before it was read to its end
            standby.close()
            standby = Standby(connection(), names, replica)
        assert replica.engine.dump() == owner.journal.replica.engine.dump()
        assert replica.head == owner.journal.head
    standby.close()


def test_its_turn_costs_it_nothing_that_it_has_read(connection: Callable[[], Any]) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(10)
    next_ = Journal(names)
    waiting = connection()
    standby = Standby(waiting, names, next_.replica)
    standby.step(0.2)
    engine, state = next_.replica.engine, owner.journal.replica.engine.dump()
    standby.close()
    next_.take_over(Streams(waiting))
    assert next_.replica.engine is engine
    assert engine.dump() == state
    owner.publish(1)  # it has not heard of its end: what it writes is void
    again = Journal(names)
    again.take_over(Streams(connection()))
    assert again.replica.engine.dump() == state


def test_one_that_begins_before_the_queue_does_follows_as_well(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    replica = Replica()
    standby = Standby(connection(), names, replica)
    owner = Owner(connection(), names)
    owner.publish(3)
    standby.step(0.5)
    assert not standby.lost
    assert replica.engine.dump() == owner.journal.replica.engine.dump()
    standby.close()
