"""Two queues on one server, as two environments have them: the same names mean two things, and nothing crosses over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millgate.brokers import open_broker
from millgate.brokers.base import Broker
from millgate.ids import new_incarnation
from millgate.limits import Rate
from millgate.queues import QueuePolicy, Subscription
from support.brokers import Venue
from support.builders import a_message, a_topic
from support.working import Hand, ids

SLOT = 1_800_000_000.0
IDS = [f"same-{number}" for number in range(9)]

Pair = tuple[Broker, Broker]


@pytest.fixture
def pair(venue: Venue) -> Iterator[Pair]:
    """Clients of two queues on the same server, the name of one being the beginning of the other's."""
    url, first = venue.url or f"memory://{new_incarnation()}", venue.queue
    second = f"{first}x"
    if (serve := getattr(venue, "serve", None)) is not None:
        serve(second)  # where that takes a process of its own
    made = open_broker(url, queue=first), open_broker(url, queue=second)
    for broker in made:
        broker.setup()
    yield made
    for broker in made:
        broker.close()


def view(broker: Broker) -> Any:
    """All that can be seen of a queue but for times."""
    stats = broker.stats()
    topics = {
        name: (topic.waiting, topic.delayed, topic.leased, topic.dead, topic.paused)
        for name, topic in stats.topics.items()
    }
    workers = [(row.name, row.incarnation, row.state, row.leased) for row in stats.workers]
    states = [(one.state, one.result, one.progress) for one in broker.states(IDS)]
    dead = [letter.id for letter in broker.dead()]
    locks = [(lock.name, lock.holder, lock.fence) for lock in broker.locks()]
    return topics, workers, states, dead, locks, broker.schedules(), broker.configuration()


def furnish(broker: Broker) -> Hand:
    """Some of everything, under names that the other queue has as well."""
    broker.configure([a_topic(limit=6, rate=Rate(7, 3600.0, burst=7))])
    messages = [a_message(id=one, unique=f"text-{one}", key="k") for one in IDS]
    assert not any(receipt.duplicate for receipt in broker.publish(messages))
    assert broker.acquire("report", "me", 60.0) is not None
    assert broker.fire("nightly", SLOT, [a_message(id="nightly", topic="crons")])
    return Hand(broker, "worker-0")


def test_the_same_names_mean_two_things(pair: Pair) -> None:
    hands = [furnish(broker) for broker in pair]
    claims = [hand.claim(5, "default") for hand in hands]
    assert [ids(each) for each in claims] == [IDS[:5], IDS[:5]]
    ours, theirs = pair
    before = view(theirs)
    hands[0].ack(claims[0][0], result=b"1")
    hands[0].bury(claims[0][1], claims[0][2])
    assert ours.progress(claims[0][3].ref, b"half")
    ours.cancel([IDS[3], IDS[6]])
    ours.requeue([IDS[4]])
    ours.replay([IDS[1]])
    ours.purge_dead()
    assert ours.release("report")
    ours.fence("worker-0", 60.0)
    ours.pause("default", True)
    ours.purge("default")
    ours.configure([a_topic("default", limit=1)], QueuePolicy(suspended=True), replace=True)
    ours.unregister(hands[0].worker)
    assert view(theirs) == before
    assert [letter.id for letter in theirs.dead()] == []
    hands[1].ack(*claims[1])
    assert ids(hands[1].claim(9, "default")) == IDS[5:7]  # its own rate, of which five are gone


def test_work_for_one_is_none_for_the_other(pair: Pair) -> None:
    ours, theirs = pair
    hands = [Hand(broker) for broker in pair]
    ours.publish([a_message(id="only-here")])
    assert hands[1].claim(5) == []
    assert theirs.wait_for_work(Subscription(), 0.3) is False
    assert theirs.states(["only-here"])[0].state == "unknown"
    assert not theirs.publish([a_message(id="only-here")])[0].duplicate
    assert ids(hands[0].claim(5)) == ids(hands[1].claim(5)) == ["only-here"]
