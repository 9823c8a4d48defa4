"""Policies survive plain JSON; a subscription means what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InvalidInput
from millgate.limits import Rate
from millgate.queues import (
    Configuration,
    DeadPolicy,
    Ordering,
    QueuePolicy,
    Subscription,
    TopicPolicy,
    Undeclared,
    check_policy,
    policy_from_dict,
    policy_to_dict,
    queue_from_dict,
    queue_to_dict,
)
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy
from support.builders import a_topic

seconds = st.floats(0, 1e6)
count = st.none() | st.integers(1, 1000)
policies = st.builds(
    TopicPolicy,
    name=st.text(min_size=1),
    paused=st.booleans(),
    priority=st.integers(0, 9),
    weight=st.integers(1, 100),
    limit=count,
    key_limit=count,
    rate=st.none() | st.builds(Rate, st.integers(1, 99), seconds, count),
    ordering=st.sampled_from(Ordering),
    soft_timeout=st.none() | seconds,
    retry=st.builds(
        RetryPolicy,
        st.integers(1, 9),
        st.integers(0, 9),
        st.integers(0, 9),
        st.builds(
            Backoff,
            st.sampled_from(BackoffType),
            seconds,
            seconds,
            seconds,
            st.sampled_from(Jitter),
        ),
    ),
    dead=st.sampled_from(DeadPolicy),
    dead_topic=st.none() | st.text(),
    expires_in=st.none() | seconds,
)
queues = st.builds(QueuePolicy, count, count, st.booleans(), st.sampled_from(Undeclared), policies)


@given(policies)
def test_a_policy_survives_json(policy: TopicPolicy) -> None:
    assert policy_from_dict(json.loads(json.dumps(policy_to_dict(policy)))) == policy


@given(queues)
def test_the_policy_of_a_queue_survives_json(queue: QueuePolicy) -> None:
    assert queue_from_dict(json.loads(json.dumps(queue_to_dict(queue)))) == queue


def test_what_a_newer_version_added_is_ignored_and_what_it_lacks_has_its_default() -> None:
    assert policy_from_dict({"name": "t", "colour": "red"}) == TopicPolicy("t")
    retry = {"attempts": 9, "moons": 2, "backoff": {"initial": 3.0, "tide": "low"}}
    expected = RetryPolicy(attempts=9, backoff=Backoff(initial=3.0))
    assert policy_from_dict({"name": "t", "retry": retry}) == TopicPolicy("t", retry=expected)
    assert queue_from_dict({"colour": "red"}) == QueuePolicy()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"name": "a b"}, "its name has letters"),
        ({"priority": 10}, "priority is between 0 and 9"),
        ({"weight": 0}, "weight is between 1 and 100"),
        ({"limit": 0}, "to stop a topic, pause it"),
        ({"key_limit": 0}, "key_limit is at least 1"),
        ({"limit": 2, "reserve": 3}, "reserve is at most limit"),
        ({"reserve": -1}, "reserve is at least 0"),
        ({"ordering": Ordering.FIFO, "limit": 2}, "FIFO allows a limit of 1"),
        ({"lease": 0.5}, "lease is at least 1s"),
        ({"soft_timeout": 60.0, "hard_timeout": 60.0}, "soft_timeout is below hard_timeout"),
        ({"lease": inf}, "lease is at least 1s"),
        ({"rate": Rate(1, 0.01)}, "rate.per is at least 100ms"),
        ({"rate": Rate(1, inf)}, "rate.per is at least 100ms"),
        ({"rate": Rate(0, 1.0, 5)}, "rate.count is at least 1"),
        ({"dead": DeadPolicy.FORWARD}, "Forward names another topic"),
        ({"dead": DeadPolicy.FORWARD, "dead_topic": "default"}, "Forward names another topic"),
        ({"dead": DeadPolicy.FORWARD, "dead_topic": "no good"}, "dead_topic is the name"),
        ({"dead_max": -1}, "dead_max is at least 0"),
        ({"dead_retention": nan}, "dead_retention is at least 0s"),
        ({"expires_in": 0.0}, "expires_in is more than 0s"),
        ({"result_ttl": -1.0}, "result_ttl is at least 0s"),
        ({"boost_after": nan}, "boost_after is at least 0s"),
        ({"payload_max": 17 * 2**20}, "at most 16Mi"),
        ({"payload_max": 0}, "payload_max is at least 1"),
        ({"retry": RetryPolicy(attempts=0)}, "retry.attempts is at least 1"),
        ({"retry": RetryPolicy(losses=-1)}, "retry.losses is at least 0"),
        ({"retry": RetryPolicy(interruptions=-1)}, "retry.interruptions is at least 0"),
    ],
)
def test_a_policy_that_cannot_hold_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_policy(replace(a_topic(), **fields))
    assert complaint in str(refused.value)


def test_the_defaults_hold() -> None:
    check_policy(a_topic())


def test_ordering_is_a_limit_of_one() -> None:
    assert a_topic(ordering=Ordering.FIFO).effective_limit == 1
    assert a_topic(ordering=Ordering.KEY, key_limit=5).effective_key_limit == 1
    assert (a_topic(limit=7).effective_limit, a_topic(key_limit=3).effective_key_limit) == (7, 3)


def test_an_undeclared_topic_has_the_queues_defaults_under_its_own_name() -> None:
    configuration = Configuration(queue=QueuePolicy(defaults=a_topic("defaults", limit=3)))
    assert configuration.policy("new") == a_topic("new", limit=3)


@pytest.mark.parametrize(
    ("subscription", "topic", "expected"),
    [
        (Subscription(), "anything", True),
        (Subscription(("mail.*",)), "mail.out", True),
        (Subscription(("mail.*",)), "video", False),
        (Subscription(("*",), ("mail.*",)), "mail.out", False),
        (Subscription((), ("mail.*",)), "video", True),
        (Subscription(("Mail",)), "mail", False),
    ],
)
def test_a_subscription_matches(subscription: Subscription, topic: str, expected: bool) -> None:
    assert subscription.matches(topic) is expected


def test_an_ordered_subscription_ranks_by_position_and_another_by_the_topics_priority() -> None:
    ordered = Subscription(("high", "low.*"), ordered=True)
    assert [ordered.level(topic, a_topic(priority=9)) for topic in ("high", "low.a", "other")] == [
        2,
        1,
        0,
    ]
    assert Subscription(("high",)).level("low", a_topic(priority=7)) == 7
