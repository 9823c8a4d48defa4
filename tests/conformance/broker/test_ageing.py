"""Ageing: what waited long is raised until it is served, and the rest goes on being served."""

from __future__ import annotations

from collections.abc import Callable

from millgate.brokers.base import Broker
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
