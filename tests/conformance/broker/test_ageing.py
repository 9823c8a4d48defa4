"""Ageing: what waited long is raised until it is served, and the rest goes on being served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from millgate.brokers.base import Broker
from millgate.limits import Rate
from millgate.settlement import Charge, Later
from support.builders import a_topic, some_messages
from support.working import Hand

PassTime = Callable[[float], None]


def two_levels(broker: Broker, boost_after: float) -> None:
    broker.configure(
        [
            a_topic("low", priority=3, boost_after=boost_after),
            a_topic("high", priority=5, boost_after=boost_after),
        ]
    )
    broker.publish(some_messages(200, topic="low"))
    broker.publish(some_messages(200, topic="high"))


def served(hand: Hand, count: int) -> dict[str, int]:
    counts = {"low": 0, "high": 0}
    for _ in range(count):
        for claim in hand.claim(4):
            counts[claim.topic] += 1
            hand.ack(claim)
    return counts


def served_together(hand: Hand, count: int) -> Counter[str]:
    return Counter(claim.topic for claim in hand.claim(count))


def test_what_came_back_to_the_front_does_not_make_the_rest_young(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    two_levels(broker, boost_after=0.4)
    back = hand.claim(20, "low")
    pass_time(1.2)
    broker.settle([Later(claim.ref, 0.0, Charge.NOTHING) for claim in back])
    counts = served_together(hand, 40)  # those that came back were turns of their topic
    assert counts["low"] >= 8, counts
    assert counts["high"] >= 8, counts


def test_nobody_is_raised_above_those_that_are_served(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure(
        [
            a_topic("full", priority=9, limit=1, boost_after=0.1),
            a_topic("spent", priority=8, rate=Rate(1, 3600.0), boost_after=0.1),
            a_topic("high", priority=5, boost_after=60.0),
            a_topic("low", priority=1, boost_after=0.1),
        ]
    )
    for topic in ("full", "spent", "low"):
        broker.publish(some_messages(20, topic=topic))
    hand.one("full")
    hand.one("spent")
    pass_time(1.0)
    broker.publish(some_messages(20, topic="high"))
    assert served_together(hand, 8) == {"low": 4, "high": 4}


def test_without_ageing_the_lower_level_waits(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    two_levels(broker, boost_after=0)
    pass_time(1.0)
    assert served(hand, 10) == {"low": 0, "high": 40}


def test_what_waited_long_is_served_beside_the_higher_level(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    two_levels(broker, boost_after=0.4)
    assert served(hand, 2)["low"] == 0
    pass_time(1.2)
    counts = served(hand, 20)
    assert counts["low"] >= 8, counts
    assert counts["high"] >= 8, counts
