"""The straight way in, for messages of which nothing can be known yet: what makes them known all the same is found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest

from millgate.brokers.base import State
from millgate.brokers.postgres import PostgresBroker
from millgate.ids import new_id
from millgate.message import Message, Receipt
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url
from support.wait import eventually
from support.working import Hand

Open = Callable[..., PostgresBroker]


def of_one_moment(count: int, **fields: object) -> list[Message]:
    """Messages whose ids begin with the same time."""
    now = time.time()
    return [replace(a_message(**fields), id=new_id(now)) for _ in range(count)]


def receipts_of(broker: PostgresBroker, known: list[Message], messages: list[Message]) -> None:
    """A publish of all of them answers as duplicates those that are known, and only those."""
    names = {message.id for message in known}
    assert broker.publish(messages) == [
        Receipt(message.id, duplicate=message.id in names) for message in messages
    ]


def test_what_waits_is_found_among_what_is_new(broker: PostgresBroker) -> None:
    messages = of_one_moment(9)
    broker.publish(messages[2:4])
    receipts_of(broker, messages[2:4], messages)
    assert broker.stats().topics["default"].waiting == 9


@pytest.mark.parametrize("result", [None, b"1"], ids=["ended without a result", "ended with one"])
def test_what_has_ended_is_found_among_what_is_new(
    broker: PostgresBroker, result: bytes | None
) -> None:
    messages = of_one_moment(9)
    broker.publish(messages[2:4])
    hand = Hand(broker)
    hand.ack(*hand.claim(2), result=result)
    receipts_of(broker, messages[2:4], messages)
    assert broker.stats().topics["default"].waiting == 7


def test_many_between_them_do_not_hide_one(broker: PostgresBroker) -> None:
    many = sorted(of_one_moment(400), key=lambda message: message.id)
    broker.publish(many[1:-1])
    two = [many[0], many[200], many[-1]]
    receipts_of(broker, [many[200]], two)


@pytest.mark.parametrize("stays", [True, False], ids=["stored", "given up"])
def test_one_that_is_being_stored_at_the_moment_is_waited_for(
    broker: PostgresBroker, queue: str, stays: bool
) -> None:
    messages = of_one_moment(5)
    broker.publish(some_messages(1))  # the topic is there
    with psycopg.connect(database_url()) as other:
        other.execute(
            f'INSERT INTO "{queue}".msg SELECT nextval(\'"{queue}".seq\'), %s, topic, prio, call, key, ukey, ttl, grp, '
            f'expires, record FROM "{queue}".msg',
            [messages[3].id],
        )
        got: list[Receipt] = []
        publishing = threading.Thread(target=lambda: got.extend(broker.publish(messages)))
        publishing.start()
        with psycopg.connect(database_url(), autocommit=True) as looking:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE %s"
            eventually(lambda: looking.execute(waits, [f'%"{queue}".publish%']).fetchone() == (1,))
        (other.commit if stays else other.rollback)()
        publishing.join(20)
    assert got == [
        Receipt(message.id, duplicate=stays and n == 3) for n, message in enumerate(messages)
    ]
    assert broker.stats().topics["default"].waiting == (5 if stays else 6)


def test_priorities_that_two_calls_bring_at_once_are_noted_once(
    broker: PostgresBroker, queue: str
) -> None:
    broker.publish(some_messages(1))  # the topic is there
    batch = [a_message(priority=3), a_message(priority=4)]
    with psycopg.connect(database_url()) as other:
        other.execute(f'SELECT "{queue}".ensure_1(%s, %s)', [["default"], [3]])
        publishing = threading.Thread(target=broker.publish, args=[batch])
        publishing.start()
        with psycopg.connect(database_url(), autocommit=True) as looking:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE %s"
            eventually(lambda: looking.execute(waits, [f'%"{queue}".publish%']).fetchone() == (1,))
        other.commit()
        publishing.join(20)
    assert len(broker.peek("default", State.WAITING)) == 3


def test_order_is_that_of_the_call_and_of_the_calls(broker: PostgresBroker) -> None:
    calls = [of_one_moment(3) for _ in range(2)]
    calls.append(of_one_moment(1))  # by the short way
    calls.append(of_one_moment(2))
    for call in calls:
        broker.publish(call[::-1])
    started = [claim.id for claim in Hand(broker).claim(20)]
    assert started == [message.id for call in calls for message in call[::-1]]


def test_each_goes_where_its_time_and_topic_say(broker: PostgresBroker) -> None:
    broker.configure([a_topic("brief", expires_in=0.05)])
    messages = [
        *of_one_moment(2, topic="brief"),
        *of_one_moment(2, topic="long", priority=9),
        *of_one_moment(2, topic="long", delay=60.0),
        *of_one_moment(1, topic="long", at=time.time() + 60),
        *of_one_moment(1, topic="long", at=time.time() - 60),
        *of_one_moment(1, topic="long", delay=0.0, expires_in=0.05),
    ]
    broker.publish(messages)
    expired = {messages[0].id, messages[1].id, messages[8].id}
    eventually(lambda: {letter.id for letter in broker.dead(None, 9)} == expired)
    topic = broker.stats().topics["long"]
    assert (topic.waiting, topic.delayed) == (3, 3)
    started = [claim.id for claim in Hand(broker).claim(9)]
    assert started == [messages[2].id, messages[3].id, messages[7].id]
