"""Messages inside the caller's own transaction exist from its commit on, or never."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from typing import Any

import psycopg
import pytest

from millgate.brokers.base import State
from millgate.brokers.postgres import PostgresBroker, arrays
from millgate.brokers.postgres.settling import settling
from millgate.errors import InvalidInput, PayloadTooLarge
from millgate.message import Group, Receipt
from millgate.queues import Subscription
from millgate.settlement import Ack
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url
from support.wait import eventually
from support.working import Hand, ids

Caller = psycopg.Connection[Any]
Open = Callable[..., PostgresBroker]


@pytest.fixture
def caller() -> Iterator[Caller]:
    """A user's own connection."""
    with psycopg.connect(database_url()) as connection:
        yield connection


def test_nothing_is_there_before_the_commit_and_all_of_it_after(
    broker: PostgresBroker, caller: Caller
) -> None:
    hand, messages = Hand(broker), some_messages(3)
    broker.publish_in(caller, messages)
    assert hand.claim(5) == []
    assert broker.states([messages[0].id])[0].state is State.UNKNOWN
    caller.commit()
    assert ids(hand.claim(5)) == ids(messages)


def test_a_rollback_leaves_nothing(broker: PostgresBroker, caller: Caller) -> None:
    broker.publish_in(caller, some_messages(3))
    caller.rollback()
    assert Hand(broker).claim(5) == []
    topic = broker.stats().topics.get("default")
    assert topic is None or topic.enqueued == 0


def test_a_savepoint_takes_its_messages_along(broker: PostgresBroker, caller: Caller) -> None:
    kept, dropped = a_message(), a_message()
    broker.publish_in(caller, [kept])
    with caller.transaction(force_rollback=True):
        broker.publish_in(caller, [dropped])
    caller.commit()
    assert ids(Hand(broker).claim(5)) == [kept.id]


def test_a_repeat_takes_no_text_that_nobody_gives_back(
    broker: PostgresBroker, caller: Caller
) -> None:
    hand, message = Hand(broker), a_message()
    broker.publish([message])
    claim = hand.one()
    text = replace(message, unique="u")
    assert broker.publish_in(caller, [text]) == [Receipt(message.id, duplicate=True)]
    caller.commit()
    hand.ack(claim)
    assert broker.publish_in(caller, [text]) == [Receipt(message.id, duplicate=True)]
    caller.commit()
    assert not broker.publish([a_message(unique="u")])[0].duplicate


@pytest.mark.parametrize("way", ["alone", "within"])
def test_a_repeat_beside_the_end_of_the_first_is_not_run_again(
    broker: PostgresBroker, caller: Caller, open_one: Open, queue: str, way: str
) -> None:
    hand, other, message = Hand(broker), open_one(queue), a_message()
    broker.publish([message])
    settlement = settling([Ack(hand.one().ref, b"1")])
    waits = "SELECT true FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE %s"
    with psycopg.connect(database_url()) as ending, ThreadPoolExecutor(1) as pool:
        arrays.register(ending.adapters)
        ending.execute(broker.statement("settle", 27), (1, *settlement.columns), binary=True)
        if way == "alone":
            sent = pool.submit(other.publish, [message])
        else:
            sent = pool.submit(broker.publish_in, caller, [message])
        with psycopg.connect(database_url(), autocommit=True) as looking:
            eventually(lambda: looking.execute(waits, [f'%"{queue}"%']).fetchone())
        ending.commit()
        assert sent.result() == [Receipt(message.id, duplicate=True)]
    caller.commit()
    assert hand.claim(5) == []


@pytest.mark.parametrize("first", ["the end", "the group"])
def test_a_group_hears_of_a_member_that_ends_while_it_is_stored(
    broker: PostgresBroker, open_one: Open, queue: str, first: str
) -> None:
    hand, other, member, callback = Hand(broker), open_one(queue), a_message(), a_message()
    broker.publish([member])
    settlement = settling([Ack(hand.one().ref, b"1")])
    group = Group("g", (member.id,), callback)
    waits = "SELECT true FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE %s"
    with psycopg.connect(database_url()) as one, ThreadPoolExecutor(1) as pool:
        arrays.register(one.adapters)
        if first == "the end":
            one.execute(broker.statement("settle", 27), (1, *settlement.columns), binary=True)
            rest = pool.submit(other.publish, [member], group)
        else:
            receipts = [Receipt(member.id, duplicate=True)]
            one.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            broker._gather(one, group, [member], receipts)  # type: ignore[arg-type]
            rest = pool.submit(other.rows, "settle", 1, *settlement.columns)  # type: ignore[arg-type]
        with psycopg.connect(database_url(), autocommit=True) as looking:
            eventually(lambda: looking.execute(waits, [f'%"{queue}"%']).fetchone())
        one.commit()
        rest.result()
    assert broker.states([callback.id])[0].state is State.WAITING


def test_a_long_transaction_holds_up_neither_claims_nor_publishers(
    broker: PostgresBroker, caller: Caller
) -> None:
    broker.configure([a_topic(key_limit=1, limit=2)])
    broker.publish([a_message(key="k")])
    broker.publish_in(caller, [a_message(key="k")])
    begun = monotonic()
    hand = Hand(broker)
    hand.ack(hand.one())
    broker.publish([a_message(key="k")])
    hand.ack(hand.one())
    broker.stats()
    assert monotonic() - begun < 5.0
    caller.commit()
    assert len(hand.claim(5)) == 1


def test_commits_in_reverse_order_lose_nothing_while_workers_claim_and_prune(
    broker: PostgresBroker,
) -> None:
    callers = [psycopg.connect(database_url()) for _ in range(20)]
    messages = some_messages(20)
    for caller, message in zip(callers, messages, strict=True):
        broker.publish_in(caller, [message])
    hand, seen = Hand(broker), []
    for caller in reversed(callers):
        caller.commit()
        broker.tick()
        seen += hand.claim(5)
    for caller in callers:
        caller.close()
    assert sorted(ids(seen)) == sorted(ids(messages))


def test_the_commit_wakes_a_sleeping_worker(broker: PostgresBroker, caller: Caller) -> None:
    woken: list[float] = []

    def wait() -> None:
        if broker.wait_for_work(Subscription(), 10.0):
            woken.append(monotonic())

    sleeper = threading.Thread(target=wait)
    sleeper.start()
    broker.listener()
    sleeper.join(0.5)
    broker.publish_in(caller, [a_message()])
    sleeper.join(0.3)
    assert not woken
    committed = monotonic()
    caller.commit()
    sleeper.join(5)
    assert woken
    assert woken[0] - committed < 0.5


def test_duplicates_and_refusals_are_those_of_publish(
    broker: PostgresBroker, caller: Caller
) -> None:
    broker.configure([a_topic(payload_max=100)])
    known, first, second = a_message(), a_message(unique="u"), a_message(unique="u")
    broker.publish([known])
    receipts = broker.publish_in(caller, [known, first, second])
    assert [(r.id, r.duplicate) for r in receipts] == [
        (known.id, True),
        (first.id, False),
        (first.id, True),
    ]
    caller.commit()
    with pytest.raises(PayloadTooLarge):
        broker.publish_in(caller, [a_message(body=b"x" * 200)])
    caller.rollback()


def test_delays_and_expiry_hold(broker: PostgresBroker, caller: Caller) -> None:
    broker.publish_in(caller, [a_message(delay=60.0), a_message(expires_in=0.0)])
    caller.commit()
    assert Hand(broker).claim(5) == []
    stats = broker.stats().topics["default"]
    assert (stats.delayed, stats.dead) == (1, 1)


def test_serializable_transactions_send_too(broker: PostgresBroker, caller: Caller) -> None:
    caller.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    message = a_message()
    broker.publish_in(caller, [message])
    caller.commit()
    assert Hand(broker).one().id == message.id


def test_something_else_than_a_connection_is_refused(broker: PostgresBroker) -> None:
    with pytest.raises(InvalidInput, match="driver_connection"):
        broker.publish_in(object(), [a_message()])  # type: ignore[arg-type]
