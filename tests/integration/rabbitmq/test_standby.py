"""Who waits for its turn has read all that was stored, whatever became of the streams meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ConsumerCancelled

from millgate.brokers.rabbitmq import journal, vigil
from millgate.brokers.rabbitmq.connection import LOST
from millgate.brokers.rabbitmq.journal import Journal, write_snapshot
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.records import Entry, Head, Kind, Reader
from millgate.brokers.rabbitmq.replica import Replica, newest, nobodys_mark
from millgate.brokers.rabbitmq.standby import Standby
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.engine import Engine
from millgate.errors import NotDecodable
from support.rabbitmq import fresh_queue
from support.rabbitmq_owner import Owner, restored

CALLER = Caller("client", "queue")


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
    assert restored(connection(), names) == state


def test_one_that_begins_before_the_queue_does_waits_and_makes_nothing(
    connection: Callable[[], Any],
) -> None:
    names, replica, waiting = Names(fresh_queue()), Replica(), connection()
    with pytest.raises(Gone, match="head"):
        Standby(waiting, names, replica)
    assert not Streams(waiting).present(names.head)
    owner = Owner(connection(), names)
    owner.publish(3)
    standby = Standby(waiting, names, replica)
    assert replica.engine.dump() == owner.journal.replica.engine.dump()
    standby.close()


def test_a_head_that_is_deleted_is_not_made_anew_by_who_waits_and_its_knowledge_stays(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(3)
    next_, waiting = Journal(names), connection()
    standby = Standby(waiting, names, next_.replica)
    standby.step(0.2)
    owner.streams.delete(names.head)
    owner.publish(2)
    standby.step(0.2)
    assert standby.lost
    standby.close()
    with pytest.raises(Gone):
        Standby(waiting, names, next_.replica)
    next_.take_over(Streams(waiting))
    assert next_.replica.engine.dump() == owner.journal.replica.engine.dump()
    assert restored(connection(), names) == owner.journal.replica.engine.dump()


def gone_on(names: Names, connection: Any) -> Owner:
    """An owner by itself for longer than a lease, which has ended there and nowhere else."""
    owner = Owner(connection, names)
    owner.publish(1)
    owner.claim(5)
    core = owner.journal.replica.engine.core(CALLER.queue)
    core.tick(core.now + 3600.0)
    assert core.stats(core.now).topics["default"].leased == 0
    return owner


@pytest.mark.parametrize("waits", ["before", "after", "never"])
def test_an_owner_that_was_followed_believes_what_the_next_one_does(
    connection: Callable[[], Any], waits: str
) -> None:
    names = Names(fresh_queue())
    owner = gone_on(names, connection())
    replica, waiting = owner.journal.replica, connection()
    standby = Standby(waiting, names, replica) if waits == "before" else None
    other = Owner(connection(), names)
    other.publish(2)
    if standby is not None:
        standby.step(0.3)
        assert standby.lost
        standby.close()
    if waits != "never":
        standby = Standby(waiting, names, replica)
        standby.step(0.3)
        assert not standby.lost
        assert replica.engine.dump() == other.journal.replica.engine.dump()
        other.claim(3)
        standby.step(0.3)
        assert not standby.lost
        standby.close()
    else:
        other.claim(3)
    owner.journal.take_over(Streams(connection()))
    assert replica.engine.dump() == other.journal.replica.engine.dump()
    leased = replica.engine.core(CALLER.queue).stats(0.0).topics["default"].leased
    assert leased == 8


def test_an_owner_that_nobody_followed_goes_on_from_what_it_knows(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(fresh_queue())
    owner = gone_on(names, connection())
    engine, waiting = owner.journal.replica.engine, connection()
    for _ in range(2):
        Standby(waiting, names, owner.journal.replica).close()
        owner.journal.take_over(Streams(waiting))
        assert owner.journal.replica.engine is engine
    put = Streams.append

    def unheard(streams: Streams, name: str, entry: Entry) -> None:
        put(streams, name, entry)
        if entry.kind is Kind.LAST:
            raise vigil.Unanswered

    with monkeypatch.context() as patch:
        patch.setattr(Streams, "append", unheard)
        for _ in range(2):
            with pytest.raises(vigil.Unanswered):
                owner.journal.take_over(Streams(waiting))
    Standby(waiting, names, owner.journal.replica).close()
    owner.journal.take_over(Streams(waiting))
    assert owner.journal.replica.engine is engine


@pytest.mark.parametrize("part", ["head", "journal"])
def test_who_had_it_all_in_memory_stores_anew_what_was_deleted_while_it_had_no_connection(
    connection: Callable[[], Any], part: str
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(3)
    owner.streams.delete(names.head if part == "head" else owner.journal.head.journals[-1])
    state = owner.journal.replica.engine.dump()
    owner.journal.forget_streams()
    owner.journal.take_over(Streams(connection()))
    owner.journal.forget_streams()
    assert restored(connection(), names) == state == owner.journal.replica.engine.dump()


def test_a_snapshot_that_was_read_is_not_read_again_when_the_connection_ended_meanwhile(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(3)
    owner.rotate()
    owner.publish(3)
    made = [connection(), connection()]
    loads: list[int] = []
    load = Engine.load

    def slow(engine: Engine, data: bytes) -> None:
        load(engine, data)
        loads.append(len(data))
        made[0].close()  # as a server does that heard nothing for too long

    monkeypatch.setattr(Engine, "load", slow)
    next_ = Journal(names)
    with pytest.raises(AMQPError):
        next_.take_over(Streams(made[0]))
    next_.take_over(Streams(made[1]))
    assert len(loads) == 1
    assert next_.replica.engine.dump() == owner.journal.replica.engine.dump()


def test_who_waits_writes_nothing_into_the_head_and_keeps_no_channel(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(1)
    waiting = connection()
    before = len(waiting._impl._channels)
    for _ in range(3):
        Standby(waiting, names, Replica()).close()
    with pytest.raises(Gone):
        Standby(waiting, Names(fresh_queue()), Replica())
    assert len(waiting._impl._channels) == before
    mark = nobodys_mark(owner.streams, names.head)
    kinds = [entry.kind for entry, _ in owner.streams.read(names.head, mark)]
    assert kinds.count(Kind.MARK) == 2, "the owner's and this one"


def test_the_head_is_said_again_now_and_then(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SAY_AGAIN", 2)
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    last = owner.streams.last(names.head)
    for _ in range(4):
        owner.journal.look_after()
    assert last is not None
    said = owner.streams.last(names.head)
    assert said is not None
    assert said >= last + 2


def test_of_several_heads_of_one_term_the_last_said_counts(connection: Callable[[], Any]) -> None:
    streams, names = Streams(connection()), Names(fresh_queue())
    streams.declare(names.head, only_newest=True)
    for number in (1, 3, 2):  # one that was under way for long
        head = Head(7, None, (f"j{number}",), number)
        streams.append(names.head, Entry(Kind.LAST, 7, number, head.pack()))
    found, _ = newest(streams, names.head, 2)
    assert found.journals == ("j3",)


def stored(streams: Streams, names: Names, terms: int) -> set[str]:
    """The streams of a queue but its head, of so many terms."""
    made = [(term, number) for term in range(1, terms + 1) for number in range(9)]
    every = [name(*one) for one in made for name in (names.journal, names.snapshot)]
    return {name for name in every if streams.present(name)}


def test_nothing_is_left_of_what_is_of_no_use(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(1)
    owner.rotate()
    owner.publish(1)
    owner.journal.written(owner.journal.rotate(), None)  # its writer failed
    assert stored(owner.streams, names, 1) == set(owner.journal.head.names)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_delete", lambda *_: None)  # as if it were killed before
        owner.rotate()
        owner.journal.rotate()
    again, streams = Journal(names), Streams(connection())
    again.take_over(streams)
    assert again.replica.engine.dump() == owner.journal.replica.engine.dump()
    assert stored(streams, names, 2) == set(again.head.names)


def test_a_snapshot_whose_stream_is_gone_is_not_made_by_its_writer(
    connection: Callable[[], Any],
) -> None:
    streams, name = Streams(connection()), Names(fresh_queue()).snapshot(1, 1)
    with pytest.raises(Gone):
        write_snapshot(streams, name, 1, b"state")
    assert not streams.present(name)
    assert issubclass(Gone, LOST), "whatever it meets, the connection is made again"


def test_a_journal_whose_beginning_the_server_has_dropped_is_refused_though_a_mark_is_left(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(2)
    name, streams = owner.journal.head.journals[-1], Streams(connection())
    Journal(names).take_over(streams)  # its mark is in the middle
    replica = Replica()
    replica.enter(name, Reader())
    first, offset = next(iter(streams.read(name, nobodys_mark(streams, name), 3)))
    assert first.kind is Kind.MARK
    with pytest.raises(NotDecodable, match="policy"):
        replica.take(first, offset)


def test_a_confirmation_that_is_long_in_coming_is_said(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    streams, name = Streams(connection()), Names(fresh_queue()).head
    streams.declare(name, only_newest=True)
    nobodys_mark(streams, name)
    assert "no answer" not in caplog.text
    monkeypatch.setattr(vigil, "SLOW", 0.0)
    nobodys_mark(streams, name)
    assert f"{name}: no answer" in caplog.text


def test_a_reader_that_the_server_ended_reads_on_when_the_stream_is_there(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, name = Streams(connection()), Names(fresh_queue()).head
    streams.declare(name, only_newest=True)
    nobodys_mark(streams, name)
    # As a server ends the consumers of a replica that goes away; a single node does so for a deleted stream only.
    monkeypatch.setattr(BlockingChannel, "consume", lambda *_, **__: iter(()))
    with pytest.raises(ConsumerCancelled):
        list(streams.read(name, 0))
    streams.delete(name)
    with pytest.raises(Gone):
        list(streams.read(name, 0))


def test_a_snapshot_is_due_after_a_take_over_when_there_is_much_to_read_and_not_else(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(1)
    for more, due in ((0, False), (40, True)):
        owner.publish(more)
        next_ = Journal(names, smallest=20_000)
        next_.take_over(Streams(connection()))
        assert next_.due is due
        owner.journal.take_over(owner.streams)


def test_a_snapshot_that_ended_a_brokerd_is_not_begun_again_by_the_next_one_at_once(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(40)
    assert owner.journal.due
    owner.journal.rotate()  # and there was no memory for it
    next_ = Owner(connection(), names)
    assert not next_.journal.due
    next_.publish(20)
    assert next_.journal.due
    next_.rotate()
    next_.publish(100)
    last = Journal(names, smallest=20_000)
    last.take_over(Streams(connection()))
    assert last.due
