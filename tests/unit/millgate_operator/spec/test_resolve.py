"""What manifests come to: a Topic over the queue's defaults over Millgate's own, and the workers' settings."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.limits import Ceiling, Rate
from millgate.queues import DeadPolicy, Ordering, TopicPolicy, Undeclared, check_policy
from millgate.retry import BackoffType, Jitter
from millgate.settings import WorkerSettings
from millgate_operator.errors import InvalidSpec
from millgate_operator.spec import (
    TaskQueue,
    Topic,
    TopicSpec,
    parse_task_queue,
    parse_topic,
    resolve,
    subscription,
    topic_policy,
    worker_settings,
)
from support.manifests import a_task_queue, a_topic, workers


def queue(**spec: Any) -> TaskQueue:
    return parse_task_queue(a_task_queue(**spec))


def topic(name: str = "invoices", created: str = "", **spec: Any) -> Topic:
    manifest = a_topic(name, **spec)
    manifest["metadata"]["creationTimestamp"] = created
    return parse_topic(manifest)


def test_a_topic_that_says_nothing_gets_millgates_own_policy() -> None:
    resolved = resolve(queue(), [topic()])
    assert resolved.topics["invoices"] == TopicPolicy(name="invoices")


def test_every_field_of_a_topic_reaches_its_policy() -> None:
    spec = {
        "paused": True,
        "priority": 8,
        "weight": 20,
        "ageing": {"boostAfter": "0s"},
        "concurrency": {"limit": 5, "reserve": 2, "perKey": {"limit": 1}},
        "rate": {"count": 10, "per": "1m", "burst": 30},
        "ordering": "PerKey",
        "timeout": {"soft": "10m", "hard": "15m"},
        "lease": {"duration": "30s"},
        "retry": {
            "maxAttempts": 8,
            "maxLost": 0,
            "maxInterrupted": 7,
            "backoff": {
                "type": "Fixed",
                "initial": "5s",
                "factor": 3,
                "max": "15m",
                "jitter": "None",
            },
        },
        "deadLetter": {
            "policy": "Forward",
            "topic": "graveyard",
            "retention": "720h",
            "maxItems": 0,
        },
        "queueTTL": "1h30m",
        "retention": {"results": "10m"},
        "payload": {"maxBytes": "1Mi"},
    }
    policy = resolve(queue(), [topic(**spec)]).topics["invoices"]
    check_policy(policy)
    assert policy.paused
    assert (policy.priority, policy.weight, policy.boost_after) == (8, 20, 0.0)
    assert (policy.limit, policy.reserve, policy.key_limit) == (5, 2, 1)
    assert policy.rate == Rate(10, 60.0, 30)
    assert policy.ordering is Ordering.KEY
    assert (policy.soft_timeout, policy.hard_timeout, policy.lease) == (600.0, 900.0, 30.0)
    retry = policy.retry
    assert (retry.attempts, retry.losses, retry.interruptions) == (8, 0, 7)
    backoff = policy.retry.backoff
    assert (backoff.type, backoff.jitter) == (BackoffType.FIXED, Jitter.NONE)
    assert (backoff.initial, backoff.factor, backoff.max) == (5.0, 3, 900.0)
    assert (policy.dead, policy.dead_topic) == (DeadPolicy.FORWARD, "graveyard")
    assert (policy.dead_retention, policy.dead_max) == (720 * 3600.0, 0)
    assert (policy.expires_in, policy.result_ttl, policy.payload_max) == (5400.0, 600.0, 2**20)


def test_no_field_of_a_policy_is_left_out_of_the_manifest() -> None:
    """A policy field that no manifest could set would be a promise nobody can use."""
    different = topic_policy(
        "t",
        TopicSpec.model_validate(
            {
                "queueRef": {"name": "q"},
                "paused": True,
                "priority": 1,
                "weight": 1,
                "ageing": {"boostAfter": "1s"},
                "concurrency": {"limit": 9, "reserve": 1, "perKey": {"limit": 1}},
                "rate": {"count": 1},
                "ordering": "PerKey",
                "timeout": {"soft": "1s", "hard": "2s"},
                "lease": {"duration": "5s"},
                "retry": {"maxAttempts": 1},
                "deadLetter": {"policy": "Forward", "topic": "d", "retention": "1s", "maxItems": 1},
                "queueTTL": "1s",
                "retention": {"results": "1s"},
                "payload": {"maxBytes": 1},
            }
        ),
    )
    own = TopicPolicy(name="defaults")
    same = [
        field for field in TopicPolicy.__slots__ if getattr(different, field) == getattr(own, field)
    ]
    assert same == []


def test_what_a_topic_leaves_out_comes_from_the_queues_defaults() -> None:
    defaults = {
        "retry": {"maxAttempts": 7, "backoff": {"initial": "9s"}},
        "timeout": {"hard": "2h"},
    }
    made = resolve(
        queue(defaults=defaults), [topic(retry={"backoff": {"max": "1m"}}, timeout={"soft": "1h"})]
    )
    policy = made.topics["invoices"]
    assert policy.retry.attempts == 7
    assert (policy.retry.backoff.initial, policy.retry.backoff.max) == (9.0, 60.0)
    assert (policy.soft_timeout, policy.hard_timeout) == (3600.0, 7200.0)
    assert made.queue.defaults.retry.attempts == 7


def test_a_topic_that_contradicts_the_defaults_is_refused_and_the_others_stay() -> None:
    made = resolve(
        queue(defaults={"timeout": {"hard": "5m"}}),
        [topic("good"), topic("bad", topicName="bad.name", timeout={"soft": "10m"})],
    )
    assert set(made.topics) == {"good"}
    assert "soft_timeout is below hard_timeout" in made.refused["bad"]
    assert made.refused_names == {"bad.name"}


def test_defaults_that_contradict_themselves_are_an_error_of_the_queue() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.defaults: .*soft_timeout is below hard_timeout"):
        resolve(queue(defaults={"timeout": {"soft": "3h"}}), [])


def test_of_two_topics_with_one_name_the_older_object_counts() -> None:
    young = topic("a-young", created="2026-02-01T00:00:00Z", topicName="invoices", priority=1)
    old = topic("z-old", created="2026-01-01T00:00:00Z", topicName="invoices", priority=2)
    made = resolve(queue(), [young, old])
    assert made.conflicts == {"a-young": "z-old"}
    assert made.topics["z-old"].priority == 2
    assert "a-young" not in made.topics


def test_the_queues_own_limits_reach_the_broker() -> None:
    made = resolve(
        queue(
            limits={"maxInFlight": 200, "maxQueued": 5000},
            undeclaredTopics="Reject",
            suspend="Hold",
        ),
        [],
    ).queue
    assert (made.limit, made.max_waiting) == (200, 5000)
    assert made.undeclared is Undeclared.REJECT
    assert made.suspended


def test_the_workers_settings_say_what_the_manifest_says() -> None:
    read = queue(
        workers=workers(
            children=3,
            slots=4,
            memory={"maxRSS": "30%", "hardMaxRSS": "600Mi"},
            maxTasksPerChild=100,
            maxChildLifetime="1h",
            preload=True,
            drainTimeout="20m",
            topics={"include": ["video-*", "mail"], "exclude": ["video-raw"], "ordered": True},
        )
    )
    settings = worker_settings(read, broker="local://x", metrics="0.0.0.0:8080")
    assert settings == WorkerSettings(
        broker="local://x",
        queue="default.hello",
        app="hello.tasks:app",
        topics=("video-*", "mail"),
        exclude=("video-raw",),
        ordered=True,
        children=3,
        slots=4,
        max_rss=Ceiling(share=0.3),
        hard_max_rss=Ceiling(amount=600 * 2**20),
        max_tasks=100,
        max_lifetime=3600.0,
        drain_timeout=1200.0,
        metrics="0.0.0.0:8080",
        preload=True,
    )
    assert WorkerSettings.from_env(settings.to_env()) == settings


def test_a_prefix_is_the_queues_name_on_the_broker() -> None:
    named = queue(broker={"type": "Local", "prefix": "shop.orders"})
    assert worker_settings(named, broker="local://x").queue == "shop.orders"


def test_without_workers_there_is_nothing_to_start() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.workers is missing"):
        worker_settings(queue(workers=None))


def test_an_empty_selection_takes_every_topic() -> None:
    read = queue(workers=workers(topics={"exclude": ["slow"]}))
    assert read.spec.workers is not None
    chosen = subscription(read.spec.workers)
    assert chosen.matches("anything")
    assert not chosen.matches("slow")
