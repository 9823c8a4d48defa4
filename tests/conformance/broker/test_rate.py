"""Rates: a token bucket for the whole fleet, its burst at once after a pause and never more."""

from __future__ import annotations

from collections.abc import Callable

from millgate.brokers.base import Broker
from millgate.limits import Rate
from support.builders import a_topic, some_messages
from support.working import Hand

PassTime = Callable[[float], None]


def test_the_burst_starts_at_once_and_no_more(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(rate=Rate(1, 60.0, burst=4))])
    broker.publish(some_messages(20))
    assert len(hand.claim(20)) == 4
    assert hand.claim(20) == []
    assert Hand(broker).claim(20) == []


def test_a_long_pause_saves_up_no_more_than_the_burst(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(rate=Rate(10, 1.0, burst=2))])
    broker.publish(some_messages(20))
    assert len(hand.claim(9)) == 2
    pass_time(1.0)
    assert broker.stats().topics["default"].claimable == 2
    assert len(hand.claim(9)) == 2


def test_a_configuration_that_leaves_the_rate_alone_brings_no_tokens(
    broker: Broker, hand: Hand
) -> None:
    broker.configure([a_topic(rate=Rate(1, 60.0, burst=2))])
    broker.publish(some_messages(9))
    assert len(hand.claim(9)) == 2
    broker.configure([a_topic(rate=Rate(1, 60.0, burst=2), weight=3, limit=8)])
    assert hand.claim(9) == []


def test_without_a_burst_the_count_is_the_burst(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(rate=Rate(3, 60.0))])
    broker.publish(some_messages(20))
    assert len(hand.claim(20)) == 3


def test_tokens_come_back_with_time(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.configure([a_topic(rate=Rate(10, 1.0, burst=1))])
    broker.publish(some_messages(20))
    assert len(hand.claim(20)) == 1
    started = 0
    for _ in range(10):
        pass_time(0.11)
        started += len(hand.claim(20))
    assert 9 <= started <= 13


def test_an_idle_bucket_fills_to_its_burst_only(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(rate=Rate(20, 1.0, burst=3))])
    broker.publish(some_messages(3))
    hand.run_all()
    pass_time(1.0)
    broker.publish(some_messages(20))
    assert len(hand.claim(20)) == 3


def test_what_the_rate_refuses_is_charged_nothing(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(rate=Rate(5, 1.0, burst=1))])
    broker.publish(some_messages(2))
    hand.one()
    for _ in range(3):  # well within the fifth of a second that a token takes
        assert hand.claim(5) == []
    pass_time(0.3)
    claim = hand.one()
    assert (claim.attempt, claim.failures, claim.interruptions) == (1, 0, 0)


def test_a_claim_says_when_the_next_token_comes(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(rate=Rate(1, 10.0), lease=60.0)])
    broker.publish(some_messages(2))
    hand.one()
    due = hand.ask().next_due
    assert due is not None
    assert 8 < due <= 10


def test_a_rate_changes_for_the_next_claim(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(rate=Rate(1, 60.0))])
    broker.publish(some_messages(20))
    assert len(hand.claim(20)) == 1
    broker.configure([a_topic()])
    assert len(hand.claim(5)) == 5
    broker.configure([a_topic(rate=Rate(2, 60.0))])
    assert len(hand.claim(20)) == 2


def test_claimable_says_what_the_rate_leaves(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(rate=Rate(2, 60.0, burst=5))])
    broker.publish(some_messages(20))
    hand.claim(1)
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.claimable) == (19, 4)
