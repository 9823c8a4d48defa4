"""configure: versioned, checked before it is stored, read back as it was written."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from millgate.brokers.base import Broker
from millgate.errors import InvalidInput
from millgate.limits import Rate
from millgate.queues import DeadPolicy, Ordering, QueuePolicy, TopicPolicy, Undeclared
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy
from support.builders import a_message, a_topic
from support.working import Hand

EVERYTHING = TopicPolicy(
    name="full",
    paused=True,
    priority=7,
    weight=33,
    boost_after=12.5,
    limit=9,
    reserve=2,
    key_limit=3,
    rate=Rate(100, 60.0, 20),
    ordering=Ordering.KEY,
    soft_timeout=5.5,
    hard_timeout=60.0,
    lease=15.0,
    retry=RetryPolicy(7, 3, 11, Backoff(BackoffType.FIXED, 1.5, 3.0, 99.0, Jitter.NONE)),
    dead=DeadPolicy.FORWARD,
    dead_topic="graves",
    dead_retention=3600.0,
    dead_max=500,
    expires_in=7200.0,
    result_ttl=60.0,
    payload_max=4096,
)


def test_policies_are_read_back_as_they_were_written(broker: Broker) -> None:
    queue = QueuePolicy(50, 1000, True, Undeclared.REJECT, a_topic("defaults", priority=3))
    revision = broker.configure([EVERYTHING, a_topic("plain")], queue)
    stored = broker.configuration()
    assert stored.revision == revision
    assert stored.queue == queue
    assert dict(stored.topics) == {"full": EVERYTHING, "plain": a_topic("plain")}


def test_a_change_raises_the_revision_and_no_change_does_not(broker: Broker) -> None:
    first = broker.configure([a_topic(limit=1)])
    assert broker.configure([a_topic(limit=1)]) == first
    assert broker.configure([]) == first
    second = broker.configure([a_topic(limit=2)])
    assert second == first + 1
    assert broker.configure([], QueuePolicy(limit=5)) == second + 1
    assert broker.configure([], QueuePolicy(limit=5)) == second + 1


def test_the_queues_policy_that_holds_already_is_no_change(broker: Broker) -> None:
    assert broker.configure([], QueuePolicy()) == broker.configuration().revision == 0


def test_topics_that_are_not_named_stay_unless_replaced(broker: Broker) -> None:
    broker.configure([a_topic("a"), a_topic("b")])
    broker.configure([a_topic("c")])
    assert sorted(broker.configuration().topics) == ["a", "b", "c"]
    broker.configure([a_topic("c")], replace=True)
    assert sorted(broker.configuration().topics) == ["c"]


def test_the_queues_policy_stays_when_none_is_given(broker: Broker) -> None:
    broker.configure([], QueuePolicy(limit=5))
    broker.configure([a_topic()])
    assert broker.configuration().queue.limit == 5


def test_messages_of_a_topic_that_is_not_declared_any_more_stay(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("old", limit=1)])
    broker.publish([a_message(topic="old"), a_message(topic="old")])
    broker.configure([], replace=True)
    assert broker.stats().topics["old"].declared is False
    assert len(hand.claim(5)) == 2


def test_undeclared_topics_obey_the_queues_defaults(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message(topic="free"), a_message(topic="free")])
    broker.configure([], QueuePolicy(defaults=a_topic("defaults", limit=1, lease=7.0)))
    claims = hand.claim(5)
    assert [claim.lease for claim in claims] == [7.0]


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 10},
        {"weight": 0},
        {"limit": 0},
        {"lease": 0.5},
        {"reserve": 5, "limit": 2},
        {"ordering": Ordering.FIFO, "limit": 3},
        {"soft_timeout": 10.0, "hard_timeout": 5.0},
        {"dead": DeadPolicy.FORWARD},
        {"dead_max": -1},
        {"rate": Rate(0, 1.0, 5)},
        {"limit": 10**10},
        {"dead_max": 10**30},
        {"result_ttl": 1e300},
        {"hard_timeout": inf},
        {"retry": RetryPolicy(backoff=Backoff(max=inf))},
    ],
    ids=str,
)
def test_a_policy_that_cannot_hold_is_refused_and_nothing_changes(
    broker: Broker, fields: dict[str, Any]
) -> None:
    before = broker.configuration()
    with pytest.raises(InvalidInput):
        broker.configure([a_topic("good"), a_topic("bad", **fields)])
    assert broker.configuration() == before


@pytest.mark.parametrize(
    "fields", [{"limit": 0}, {"limit": 10**10}, {"max_waiting": 10**30}], ids=str
)
def test_a_policy_of_the_queue_that_cannot_hold_is_refused(
    broker: Broker, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        broker.configure([], QueuePolicy(**fields))


def test_reserves_beyond_the_queues_limit_are_refused(broker: Broker) -> None:
    with pytest.raises(InvalidInput, match="reserve"):
        broker.configure([a_topic("a", reserve=3), a_topic("b", reserve=3)], QueuePolicy(limit=5))
    broker.configure([a_topic("a", reserve=3)], QueuePolicy(limit=5))
    with pytest.raises(InvalidInput, match="reserve"):
        broker.configure([a_topic("b", reserve=3)])


def test_setup_may_be_repeated_and_drops_nothing(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=5)])
    broker.publish([a_message()])
    broker.setup()
    assert broker.configuration().topics["default"].limit == 5
    assert len(hand.claim()) == 1


def test_the_server_says_what_it_is(broker: Broker, broker_name: str) -> None:
    server = broker.server()
    kinds = {"rabbitmq4": "rabbitmq", "valkey": "redis"}  # versions of one kind
    assert server.kind == kinds.get(broker_name, broker_name)
    assert server.endpoint != ""
