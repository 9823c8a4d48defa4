"""Delays and named times: nothing is handed over before it is due, by the broker's clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker, State
from millgate.queues import Subscription
from support.builders import a_message, a_topic
from support.working import Hand, ids

PassTime = Callable[[float], None]


def broker_now(broker: Broker, hand: Hand) -> float:
    """The broker's time, read off a dead letter."""
    broker.publish([a_message(topic="clock")])
    claim = hand.one("clock")
    hand.bury(claim)
    letter = broker.dead_letter(claim.id)
    assert letter is not None
    broker.purge_dead(ids=[claim.id])
    return letter.died


def test_a_delayed_message_is_not_handed_over_before_it_is_due(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    message = a_message(delay=0.6)
    broker.publish([message])
    assert hand.claim() == []
    assert broker.states([message.id])[0].state is State.DELAYED
    pass_time(0.7)
    assert ids(hand.claim()) == [message.id]


def test_it_waits_once_it_is_due(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    message = a_message(delay=0.3)
    broker.publish([message])
    pass_time(0.4)
    hand.claim(0)
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.delayed) == (1, 0)


def test_a_named_time_is_kept(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    past = a_message(at=broker_now(broker, hand) - 100)
    soon = a_message(at=broker_now(broker, hand) + 1.0)
    broker.publish([soon, past])
    assert ids(hand.claim(5)) == [past.id]
    pass_time(1.1)
    assert ids(hand.claim(5)) == [soon.id]


#: A month is more milliseconds than a system call may be told to wait; the last is the longest delay that is accepted.
@pytest.mark.parametrize("delay", [30 * 86400.0, 100 * 365 * 86400.0, 9.9e11])
def test_the_queue_lives_however_far_off_the_next_thing_is(
    make_broker: Callable[[], Broker], delay: float
) -> None:
    broker = make_broker()
    late = a_message(topic="late", delay=delay)
    broker.publish([late, a_message(topic="late", delay=delay, expires_in=delay)])
    assert broker.wait_for_work(Subscription(), 0.2) is False
    other = make_broker()
    other.publish([soon := a_message()])
    assert other.wait_for_work(Subscription(), 5.0) is True
    assert ids(Hand(other).claim(3)) == [soon.id]
    assert broker.states([late.id])[0].state is State.DELAYED


@pytest.mark.parametrize("delay", [0.0, -5.0])
def test_no_delay_is_no_delay(broker: Broker, hand: Hand, delay: float) -> None:
    broker.publish([message := a_message(delay=delay)])
    assert ids(hand.claim()) == [message.id]


def test_delays_are_independent_of_leases(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    """A delay longer than the lease starts once, at its first attempt."""
    broker.configure([a_topic(lease=1.0)])
    broker.publish([a_message(delay=1.5)])
    for _ in range(3):
        assert hand.claim() == []
        pass_time(0.4)
    pass_time(0.4)
    assert hand.one().attempt == 1


def test_a_claim_says_when_the_next_message_is_due(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message(delay=50), a_message(delay=20), a_message(topic="other", delay=5)])
    due = hand.ask().next_due
    assert due is not None
    assert due <= 20


def test_a_claim_on_an_empty_queue_names_no_time(broker: Broker, hand: Hand) -> None:
    assert hand.ask().next_due is None


def test_stats_say_when_the_next_message_is_due(broker: Broker) -> None:
    assert broker.stats().next_due is None
    broker.publish([a_message(delay=30), a_message(delay=60)])
    due = broker.stats().next_due
    assert due is not None
    assert 25 < due <= 30


def test_many_delayed_messages_come_in_the_order_of_their_time(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    early, late = a_message(delay=0.2), a_message(delay=0.6)
    broker.publish([late, early])
    pass_time(0.3)
    assert ids(hand.claim(5)) == [early.id]
    pass_time(0.5)
    assert ids(hand.claim(5)) == [late.id]
