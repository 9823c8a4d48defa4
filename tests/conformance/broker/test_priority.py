"""Priority: strict between topics, by declaration or by the worker's order; within a topic by message."""

from __future__ import annotations

from collections import Counter

import pytest

from millgate.brokers.base import Broker
from millgate.ids import new_id
from millgate.queues import Ordering
from millgate.settlement import Ack
from support.builders import a_message, a_topic, some_messages
from support.working import Hand, ids


def test_a_higher_topic_is_served_first(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("low", priority=1), a_topic("high", priority=8), a_topic("mid")])
    for topic in ("low", "mid", "high"):
        broker.publish(some_messages(3, topic=topic))
    started = [hand.one().topic for _ in range(9)]
    assert started == ["high"] * 3 + ["mid"] * 3 + ["low"] * 3


def test_what_the_higher_topics_leave_goes_to_the_lower_in_one_claim(
    broker: Broker, hand: Hand
) -> None:
    broker.configure([a_topic("low", priority=1), a_topic("high", priority=8)])
    broker.publish([*some_messages(5, topic="low"), *some_messages(2, topic="high")])
    assert [claim.topic for claim in hand.claim(4)] == ["high", "high", "low", "low"]


def test_the_workers_order_is_stricter_than_what_is_declared(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("a", priority=1), a_topic("b", priority=9), a_topic("c", priority=5)])
    for topic in ("b", "c", "a"):
        broker.publish(some_messages(2, topic=topic))
    started = [hand.claim(1, "c", "a*", "*", ordered=True)[0].topic for _ in range(6)]
    assert started == ["c", "c", "a", "a", "b", "b"]


def test_an_order_without_topics_is_the_same_for_all(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("a", priority=1), a_topic("b", priority=9)])
    broker.publish([*some_messages(4, topic="a"), *some_messages(4, topic="b")])
    assert Counter(claim.topic for claim in hand.claim(4, ordered=True)) == {"a": 2, "b": 2}


def test_a_blocked_topic_does_not_hold_up_the_ones_below(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("high", priority=9, limit=1), a_topic("low", priority=1)])
    broker.publish([*some_messages(5, topic="high"), *some_messages(5, topic="low")])
    assert [claim.topic for claim in hand.claim(4)] == ["high", "low", "low", "low"]


def test_within_a_topic_the_higher_message_runs_first(broker: Broker, hand: Hand) -> None:
    low, normal, high = a_message(priority=0), a_message(), a_message(priority=9)
    later = a_message()
    broker.publish([low, normal, high, later])
    assert hand.run_all(batch=1) == ids([high, normal, later, low])


def test_a_message_keeps_its_place_when_it_is_given_back(broker: Broker, hand: Hand) -> None:
    messages = some_messages(4)
    broker.publish(messages)
    claims = hand.claim(2)
    broker.requeue(ids(claims))
    assert hand.run_all() == ids(messages)


def test_a_late_high_priority_overtakes_a_long_backlog(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(500))
    urgent = a_message(priority=9)
    broker.publish([urgent])
    assert hand.one().id == urgent.id


@pytest.mark.parametrize(
    "way", ["plain", "unique", "key limit", "order", "follows", "an id of ours"]
)
def test_a_messages_priority_holds_whichever_way_it_comes(
    broker: Broker, hand: Hand, way: str
) -> None:
    if way == "key limit":
        broker.configure([a_topic(key_limit=5)])
    if way == "order":
        broker.configure([a_topic(ordering=Ordering.FIFO)])
    fields = {"unique": {"unique": "u"}, "key limit": {"key": "k"}}.get(way, {})
    urgent = a_message(id="urgent" if way == "an id of ours" else new_id(2e9), priority=8, **fields)
    usual = a_message()
    if way == "follows":
        broker.publish([a_message(topic="first")])
        broker.settle([Ack(hand.one("first").ref, publish=[usual, urgent])])
    else:
        broker.publish([usual])
        broker.publish([urgent])
    assert hand.run_all() == ids([urgent, usual])
