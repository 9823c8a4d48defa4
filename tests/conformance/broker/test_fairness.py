"""Fairness within a level: each topic gets its share by weight, in any size of claim."""

from __future__ import annotations

import pytest

from millgate.brokers.base import Broker
from millgate.settlement import Ack
from support.builders import a_topic, some_messages
from support.working import Hand

WEIGHTS = {"a": 10, "b": 20, "c": 50}


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_the_share_is_within_a_tenth_over_two_thousand_starts(
    broker: Broker, hand: Hand, batch: int
) -> None:
    broker.configure([a_topic(name, weight=weight) for name, weight in WEIGHTS.items()])
    for name, weight in WEIGHTS.items():
        for _ in range(3):
            broker.publish(some_messages(weight * 10, topic=name))
    total, counts = 2000, dict.fromkeys(WEIGHTS, 0)
    settlements: list[Ack] = []
    while sum(counts.values()) < total:
        claims = hand.ask(batch, settlements).claims
        for claim in claims:
            counts[claim.topic] += 1
        settlements = [Ack(claim.ref) for claim in claims]
    for name, weight in WEIGHTS.items():
        share = counts[name] / sum(counts.values())
        assert abs(share / (weight / 80) - 1) < 0.1, counts


def test_a_topic_that_was_away_gets_no_credit_for_it(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("a"), a_topic("b")])
    broker.publish(some_messages(1000, topic="a"))
    for _ in range(4):
        hand.ack(*hand.claim(100))
    broker.publish(some_messages(200, topic="b"))
    counts = {"a": 0, "b": 0}
    for _ in range(10):
        claims = hand.claim(20)
        for claim in claims:
            counts[claim.topic] += 1
        hand.ack(*claims)
    assert 80 <= counts["b"] <= 120, counts


def test_two_that_are_behind_a_third_are_served_in_turn(broker: Broker, hand: Hand) -> None:
    for topic in "abc":
        broker.publish(some_messages(40, topic=topic))
    assert [len(hand.claim(n, topic)) for topic, n in (("a", 1), ("b", 1), ("c", 11))] == [1, 1, 11]
    started = [claim.topic for claim in hand.claim(8)]
    assert abs(started.count("a") - started.count("b")) <= 1
    assert started.count("c") <= 2


def test_one_deep_topic_does_not_shut_out_the_others(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1000, topic="deep"))
    broker.publish([*some_messages(5, topic="x"), *some_messages(5, topic="y")])
    started = [claim.topic for _ in range(3) for claim in hand.claim(10)]
    assert started.count("x") == started.count("y") == 5


def test_what_one_topic_cannot_use_goes_to_the_others(broker: Broker, hand: Hand) -> None:
    broker.publish([*some_messages(2, topic="a"), *some_messages(30, topic="b")])
    claims = hand.claim(20)
    assert [claim.topic for claim in claims].count("b") == 18


def test_a_share_that_is_not_there_goes_to_others_in_the_same_claim(broker: Broker) -> None:
    """One topic is behind by just what is asked for, and has less."""
    broker.publish(some_messages(3, topic="long"))
    broker.publish(some_messages(1, topic="short"))
    hand = Hand(broker)
    assert len(hand.claim(4)) == 4
    broker.unregister(hand.worker)  # all of it waits again
    assert len(Hand(broker).claim(2)) == 2
