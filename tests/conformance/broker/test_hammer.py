"""Limits under load: eight workers at once, and what they hold is never more than allowed, and reaches it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from millgate.brokers.base import Broker
from millgate.limits import Rate
from millgate.message import Message
from millgate.queues import Ordering, QueuePolicy
from support.brokers import Venue
from support.builders import a_message, a_topic, some_messages
from support.hammer import hammer, most_at_once
from support.working import Hand, ids


def publish(broker: Broker, messages: list[Message]) -> None:
    for start in range(0, len(messages), 500):
        broker.publish(messages[start : start + 500])


def test_a_topics_limit_is_never_exceeded_and_is_reached(venue: Venue, broker: Broker) -> None:
    broker.configure([a_topic(limit=3)])
    messages = some_messages(10_000)
    publish(broker, messages)
    runs = hammer(venue, hold=0.0005)
    assert sorted(run.id for run in runs) == sorted(ids(messages))
    assert most_at_once(runs) == 3
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.leased, topic.completed) == (0, 0, len(messages))


def test_a_keys_limit_is_never_exceeded(venue: Venue, broker: Broker) -> None:
    broker.configure([a_topic(key_limit=2)])
    messages = [a_message(key=f"k{n % 6}") for n in range(600)]
    publish(broker, messages)
    runs = hammer(venue, batch=4)
    assert sorted(run.id for run in runs) == sorted(ids(messages))
    most = [most_at_once(run for run in runs if run.key == f"k{n}") for n in range(6)]
    assert max(most) == 2


def test_the_queues_limit_and_a_reserve_are_never_exceeded(venue: Venue, broker: Broker) -> None:
    broker.configure([a_topic("vip", reserve=2), a_topic("bulk")], QueuePolicy(limit=5))
    messages = [*some_messages(400, topic="bulk"), *some_messages(100, topic="vip")]
    publish(broker, messages)
    runs = hammer(venue)
    assert sorted(run.id for run in runs) == sorted(ids(messages))
    assert most_at_once(runs) <= 5
    assert most_at_once(run for run in runs if run.topic == "bulk") <= 3


def test_an_order_per_key_is_kept(venue: Venue, broker: Broker) -> None:
    broker.configure([a_topic(ordering=Ordering.KEY)])
    messages = [a_message(key=f"k{n % 7}") for n in range(350)]
    publish(broker, messages)
    runs = sorted(hammer(venue), key=lambda run: run.start)
    for n in range(7):
        key = f"k{n}"
        assert [run.id for run in runs if run.key == key] == [
            m.id for m in messages if m.key == key
        ]
        assert most_at_once(run for run in runs if run.key == key) == 1


def test_a_rate_is_never_exceeded(venue: Venue, broker: Broker) -> None:
    """The rate adds nothing in the time of this test, so the burst is all that anybody gets."""
    broker.configure([a_topic(rate=Rate(1, 3600.0, burst=50))])
    messages = some_messages(200)
    publish(broker, messages)
    taken = []
    for _ in range(5):
        taken += burst(venue)
    assert len(taken) == 50
    assert len(set(taken)) == 50


def burst(venue: Venue) -> list[str]:
    """What several workers get in one go."""
    hands = [Hand(venue.client()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        return [
            claim.id for claims in pool.map(lambda hand: hand.claim(7), hands) for claim in claims
        ]
