"""Expiry: what has not started in time is buried on the way and never runs."""

from __future__ import annotations

from collections.abc import Callable

from millgate.brokers.base import Broker, State
from millgate.outcome import Reason
from millgate.queues import DeadPolicy
from support.builders import a_message, a_topic
from support.working import Hand, ids

PassTime = Callable[[float], None]


def test_an_expired_message_is_buried_and_not_handed_over(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    expired, good = a_message(expires_in=0.3), a_message()
    broker.publish([expired, good])
    pass_time(0.4)
    assert ids(hand.claim(5)) == [good.id]
    assert broker.states([expired.id])[0].state is State.FAILED
    letter = broker.dead_letter(expired.id)
    assert letter is not None
    assert (letter.reason, letter.attempt) == (Reason.EXPIRED, 0)


def test_a_topic_may_set_the_expiry(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.configure([a_topic(expires_in=0.3)])
    by_topic, own = a_message(), a_message(expires_in=60)
    broker.publish([by_topic, own])
    pass_time(0.4)
    assert ids(hand.claim(5)) == [own.id]


def test_a_message_that_comes_when_it_has_expired_is_remembered_from_then_on(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(dead=DeadPolicy.DROP, result_ttl=1.0)])
    message = a_message(expires_at=1_000_000_000.0)
    broker.publish([message])
    pass_time(0.1)
    assert hand.claim() == []
    known = broker.states([message.id])[0]
    assert (known.state, known.reason) == (State.FAILED, Reason.EXPIRED)
    assert broker.publish([message])[0].duplicate


def test_a_message_that_has_started_does_not_expire(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.publish([message := a_message(expires_in=0.3)])
    claim = hand.one()
    pass_time(0.4)
    hand.fail(claim)
    assert ids(hand.claim()) == [message.id]


def test_a_delayed_message_expires_too(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.publish([message := a_message(delay=0.3, expires_in=0.2)])
    pass_time(0.5)
    assert hand.claim() == []
    assert broker.states([message.id])[0].reason == Reason.EXPIRED


def test_expiry_counts_as_failed_and_frees_the_queue(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.publish([a_message(expires_in=0.2), a_message(expires_in=0.2)])
    pass_time(0.3)
    assert hand.claim(5) == []
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.dead, topic.failed, topic.started) == (0, 2, 2, 0)


def test_many_expired_messages_do_not_hide_the_good_one_behind(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    good = a_message()
    broker.publish([*(a_message(expires_in=0.2) for _ in range(300)), good])
    pass_time(0.3)
    assert ids(hand.claim(1)) == [good.id]
