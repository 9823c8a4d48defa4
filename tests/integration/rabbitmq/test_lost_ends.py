"""A server that loses its power may have lost any stream's end; what is known beside it is used where it counts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from millgate.brokers.rabbitmq.journal import Journal
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.records import Kind
from millgate.brokers.rabbitmq.standby import Standby
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served.engine import Engine
from support.rabbitmq import fresh_queue
from support.rabbitmq_owner import Owner, cut, restored


def test_a_journal_that_lost_its_tail_is_stored_anew_from_memory(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(6)
    next_, waiting = Journal(names), connection()
    standby = Standby(waiting, names, next_.replica)
    standby.close()
    state = owner.journal.replica.engine.dump()
    cut(owner.streams, owner.journal.head.journals[-1], 3)
    for memory in (owner.journal, next_):
        memory.forget_streams()
        with suppress(Gone):
            Standby(waiting, names, next_.replica).close()
        memory.take_over(Streams(connection()))
        assert memory.replica.engine.dump() == state
    assert restored(connection(), names) == state


def test_what_another_has_added_to_a_shorter_journal_meanwhile_is_what_counts(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(4)
    cut(owner.streams, owner.journal.head.journals[-1], 3)
    rival = Owner(connection(), names)  # it knows nothing but what is stored
    rival.number = 10
    rival.publish(5)
    owner.journal.forget_streams()
    owner.journal.take_over(Streams(connection()))
    assert owner.journal.replica.engine.dump() == rival.journal.replica.engine.dump()


@pytest.mark.parametrize("kept", [0, 1])
def test_a_snapshot_of_which_a_part_is_missing_is_not_waited_for_while_the_one_before_is_there(
    connection: Callable[[], Any], kept: int
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    for _ in range(2):
        owner.publish(3)
        owner.rotate()
    owner.publish(2)
    assert owner.journal.head.snapshot is not None
    cut(owner.streams, owner.journal.head.snapshot, kept)
    assert restored(connection(), names) == owner.journal.replica.engine.dump()


def heads(owner: Owner, names: Names) -> int:
    """How many entries the head's stream has."""
    last = owner.streams.last(names.head)
    assert last is not None
    return last + 1


@pytest.mark.parametrize("journal_too", [True, False])
def test_who_went_on_from_a_head_that_lost_its_end_is_not_overruled_by_who_knew_more(
    connection: Callable[[], Any], journal_too: bool
) -> None:
    names = Names(fresh_queue())
    Owner(connection(), names).publish(2)
    between = Owner(connection(), names)
    kept, journal = heads(between, names), between.journal.head.journals[-1]
    stored = between.streams.last(journal)
    assert stored is not None
    last = Owner(connection(), names)
    last.publish(3)
    knows_more = Journal(names)
    waiting = connection()
    Standby(waiting, names, knows_more.replica).close()
    cut(last.streams, names.head, kept)
    if journal_too:
        cut(last.streams, journal, stored + 1)
    fresh = Owner(connection(), names)
    if journal_too:
        assert fresh.journal.term == last.journal.term, "a number that was given out before"
    fresh.number = 50
    fresh.publish(4)
    state = fresh.journal.replica.engine.dump()
    with suppress(Gone):
        Standby(waiting, names, knows_more.replica).close()
    knows_more.take_over(Streams(waiting))
    assert knows_more.replica.engine.dump() == state
    assert restored(connection(), names) == state


def test_who_knew_more_stores_it_anew_when_nobody_went_on_without_it(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    between = Owner(connection(), names)
    kept = heads(between, names)
    last = Owner(connection(), names)
    last.publish(3)
    state = last.journal.replica.engine.dump()
    cut(last.streams, names.head, kept)
    last.journal.take_over(Streams(connection()))
    assert last.journal.replica.engine.dump() == state
    assert restored(connection(), names) == state


def test_a_journal_whose_marks_are_of_later_terms_than_the_head_knows_is_gone_on_with(
    connection: Callable[[], Any],
) -> None:
    names = Names(fresh_queue())
    first = Owner(connection(), names)
    kept = heads(first, names)
    for number in (10, 20):  # two terms of which the head's stream will know nothing
        later = Owner(connection(), names)
        later.number = number
        later.publish(2)
    cut(later.streams, names.head, kept)
    fresh = Owner(connection(), names)
    assert fresh.journal.replica.engine.dump() == later.journal.replica.engine.dump()
    fresh.number = 50
    fresh.publish(2)
    assert restored(connection(), names) == fresh.journal.replica.engine.dump()


def test_a_stream_that_is_left_of_a_term_that_no_head_tells_of_is_no_part_of_the_next_one(
    connection: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # a later owner's numbers are higher: with lower ones it goes above the term, and its streams have other names
    begins = itertools.count(1000, 1000)
    monkeypatch.setattr(
        "millgate.brokers.rabbitmq.journal.secrets.randbits", lambda _: next(begins)
    )
    names = Names(fresh_queue())
    first = Owner(connection(), names)
    first.publish(1)
    kept = heads(first, names)
    later = Owner(connection(), names)
    name = later.journal.rotate()  # its snapshot is not written
    later.publish(3)
    left = later.journal.head.journals[-1]
    cut(later.streams, names.head, kept)
    fresh = Owner(connection(), names)
    assert fresh.journal.rotate() == name
    assert fresh.journal.head.journals[-1] == left
    fresh.number = 50
    fresh.publish(2)
    mark = later.streams.read(left, 0)
    assert [entry.kind for entry, _ in mark] == [Kind.MARK]
    assert restored(connection(), names) == fresh.journal.replica.engine.dump()


def test_a_state_that_takes_longer_to_load_than_the_server_waits_costs_no_connection(
    connection: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(fresh_queue())
    owner = Owner(connection(), names)
    owner.publish(2)
    owner.rotate()
    load = Engine.load

    def slow(engine: Engine, data: bytes) -> None:
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            sum(range(1000))
        load(engine, data)

    monkeypatch.setattr(Engine, "load", slow)
    waiting = connection("heartbeat=1")
    again = Journal(names)
    again.take_over(Streams(waiting))
    assert waiting.is_open
    assert again.replica.engine.dump() == owner.journal.replica.engine.dump()
