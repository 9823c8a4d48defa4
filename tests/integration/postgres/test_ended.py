"""Good ends without a result: their messages lie for a minute, so that their ids are known, and then they are gone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from millgate.brokers.base import CancelState, State
from millgate.brokers.postgres import PostgresBroker
from millgate.message import Group, Message
from millgate.queues import Ordering
from millgate.settlement import Ack
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url
from support.wait import eventually
from support.working import Hand

LARGE = b'[["' + b"x" * 5000 + b'"],{}]'


@pytest.fixture
def admin(broker: PostgresBroker) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url(), autocommit=True) as connection:
        connection.execute(f'SET search_path = "{broker.target.schema}"'.encode())
        yield connection


def count(admin: psycopg.Connection, table: str) -> int:
    row = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def a_minute_passes(admin: psycopg.Connection) -> None:
    admin.execute("UPDATE ended SET until = until - interval '1 min'")


def done(broker: PostgresBroker, message: Message) -> None:
    """The message runs, and ends well without a result."""
    broker.publish([message])
    Hand(broker).ack(Hand(broker).one(message.topic))


def prune(broker: PostgresBroker, admin: psycopg.Connection) -> None:
    admin.execute("UPDATE upkeep SET pruned = now() - interval '1 h', cleared = '-infinity'")
    broker.tick()


def test_an_ended_message_is_known_as_succeeded_until_its_minute_is_over(
    broker: PostgresBroker, admin: psycopg.Connection
) -> None:
    message = a_message()
    done(broker, message)
    assert broker.states([message.id])[0].state is State.SUCCEEDED
    assert broker.publish([message])[0].duplicate
    assert broker.cancel([message.id]) == [CancelState.FINISHED]
    assert broker.requeue([message.id]) == []
    a_minute_passes(admin)
    prune(broker, admin)
    assert (count(admin, "msg"), count(admin, "ended")) == (0, 0)
    assert broker.states([message.id])[0].state is State.UNKNOWN


def test_who_claims_forgets_a_portion_of_what_has_ended(
    broker: PostgresBroker, admin: psycopg.Connection
) -> None:
    hand = Hand(broker)
    broker.publish(some_messages(300))
    for _ in range(3):
        hand.ack(*hand.claim(100))
    broker.publish([kept := a_message()])
    hand.ack(hand.one(), result=b"1")
    broker.tick()
    a_minute_passes(admin)
    admin.execute("UPDATE final SET until = now()")
    # nobody prunes: it is an hour early for that
    admin.execute("UPDATE upkeep SET pruned = now() + interval '1 h', cleared = '-infinity'")

    def gone() -> bool:
        assert hand.claim(1) == []
        return (count(admin, "msg"), count(admin, "ended"), count(admin, "final")) == (0, 0, 0)

    eventually(gone, timeout=5, every=0.05)
    assert broker.states([kept.id])[0].state is State.UNKNOWN


def test_its_id_is_free_after_the_minute_though_nobody_came_by_to_forget_it(
    broker: PostgresBroker, admin: psycopg.Connection
) -> None:
    plain, keyed = a_message(), a_message(key="k")
    broker.configure([a_topic(ordering=Ordering.KEY)])
    for message in (plain, keyed):
        done(broker, message)
    broker.tick()  # the next one is not due before the publish
    a_minute_passes(admin)
    assert [one.duplicate for one in broker.publish([plain, a_message()])] == [False, False]
    assert not broker.publish([keyed])[0].duplicate
    assert {broker.states([message.id])[0].state for message in (plain, keyed)} == {State.WAITING}
    prune(broker, admin)  # what lies there now is not what was to be forgotten
    assert (count(admin, "msg"), count(admin, "ended")) == (3, 0)


def test_a_callers_transaction_sends_under_such_an_id_and_holds_up_no_pruning(
    broker: PostgresBroker, admin: psycopg.Connection
) -> None:
    message, others = a_message(), some_messages(3)
    for one in (message, *others):
        done(broker, one)
    a_minute_passes(admin)
    with psycopg.connect(database_url()) as caller:
        assert not broker.publish_in(caller, [message])[0].duplicate
        began = time.monotonic()
        prune(broker, admin)
        assert time.monotonic() - began < 5.0
        assert (count(admin, "msg"), count(admin, "ended")) == (1, 1)  # those of the transaction
        caller.rollback()
    prune(broker, admin)
    assert (count(admin, "msg"), count(admin, "ended")) == (0, 0)


def test_what_is_large_unique_or_has_a_result_is_not_left_lying(
    broker: PostgresBroker, admin: psycopg.Connection
) -> None:
    done(broker, a_message(body=LARGE))
    done(broker, a_message(unique="u"))
    broker.publish([a_message()])
    hand = Hand(broker)
    broker.settle([Ack(hand.one().ref, b"1")])
    assert (count(admin, "msg"), count(admin, "ended"), count(admin, "final")) == (0, 0, 3)


def test_a_group_that_comes_late_knows_members_that_have_ended(broker: PostgresBroker) -> None:
    member, callback = a_message(), a_message()
    done(broker, member)
    group = Group("late", (member.id,), callback)
    assert broker.publish([member], group)[0].duplicate
    assert broker.states([callback.id])[0].state is State.WAITING


def test_members_of_a_group_are_told_of_by_their_light_ends(broker: PostgresBroker) -> None:
    members, callback = some_messages(3), a_message()
    broker.publish(members, Group("g", tuple(member.id for member in members), callback))
    hand = Hand(broker)
    for _ in members:
        assert broker.states([callback.id])[0].state is State.UNKNOWN
        hand.ack(hand.one())
    assert broker.states([callback.id])[0].state is State.WAITING
