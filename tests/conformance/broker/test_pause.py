"""pause: nothing is claimed from a paused topic, everything else goes on."""

from __future__ import annotations

from millgate.brokers.base import Broker
from support.builders import a_message, a_topic, some_messages
from support.working import Hand


def test_a_paused_topic_takes_messages_and_hands_over_none(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message()])
    broker.pause("default", True)
    broker.publish([a_message(), a_message(topic="other")])
    assert [claim.topic for claim in hand.claim(5)] == ["other"]
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.claimable, topic.paused) == (2, 0, True)


def test_a_resumed_topic_hands_over_again(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    broker.pause("default", True)
    assert hand.claim() == []
    broker.pause("default", False)
    assert len(hand.claim(5)) == 2
    assert broker.stats().topics["default"].paused is False


def test_what_runs_when_a_topic_is_paused_is_settled(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    claim = hand.one()
    broker.pause("default", True)
    hand.beat(claim)
    hand.ack(claim)
    assert broker.stats().topics["default"].completed == 1


def test_a_policy_may_pause_too_and_neither_lifts_the_other(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1))
    broker.configure([a_topic(paused=True)])
    assert hand.claim() == []
    broker.pause("default", True)
    broker.configure([a_topic(paused=False)])
    assert hand.claim() == []
    broker.configure([a_topic(paused=True)])
    broker.pause("default", False)
    assert hand.claim() == []
    broker.configure([a_topic()])
    assert len(hand.claim()) == 1


def test_a_topic_may_be_paused_before_its_first_message(broker: Broker, hand: Hand) -> None:
    broker.pause("default", True)
    broker.publish([a_message()])
    assert hand.claim() == []


def test_pausing_twice_is_pausing_once(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message()])
    broker.pause("default", True)
    broker.pause("default", True)
    broker.pause("default", False)
    assert len(hand.claim()) == 1
