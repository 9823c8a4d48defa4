"""The scaling policy that a manifest comes to."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.queues import Ordering, TopicPolicy
from millgate_operator.scaling import ScalingPolicy, scaling_policy
from millgate_operator.spec import parse_task_queue
from support.manifests import a_task_queue, workers


def policy(spec: dict[str, Any] | None = None, **fields: Any) -> ScalingPolicy | None:
    manifest = a_task_queue(workers=workers(**fields), **(spec or {}))
    topics = {
        "narrow": TopicPolicy(name="narrow", limit=5),
        "line": TopicPolicy(name="line", ordering=Ordering.FIFO),
        "wide": TopicPolicy(name="wide"),
    }
    return scaling_policy(parse_task_queue(manifest), topics)


def test_without_anything_said_it_is_small_and_patient() -> None:
    assert policy() == ScalingPolicy(
        slots=2, minimum=1, maximum=10, limits={"narrow": 5, "line": 1}
    )


@pytest.mark.parametrize(
    ("spec", "auto", "least", "most"),
    [
        ({}, {}, 1, 10),
        ({}, {"min": 0}, 0, 10),
        ({}, {"min": 30}, 30, 30),
        ({}, {"max": 3}, 1, 3),
        ({"broker": {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}}, {}, 0, 10),
    ],
)
def test_bounds_have_sensible_defaults(
    spec: dict[str, Any], auto: dict[str, Any], least: int, most: int
) -> None:
    made = policy(spec, autoscaling=auto)
    assert made is not None
    assert (made.minimum, made.maximum) == (least, most)


def test_every_field_of_autoscaling_arrives() -> None:
    made = policy(
        {"limits": {"maxInFlight": 50}, "suspend": "HoldAndDrain"},
        children=3,
        slots=4,
        topics={"exclude": ["x"]},
        autoscaling={
            "min": 2,
            "max": 7,
            "targetLatency": "10s",
            "idleAfter": "1m",
            "stabilization": "90s",
            "headroom": "High",
            "scaleUp": {"pods": 1, "percent": 10, "period": "30s"},
            "scaleIn": {"percent": 50, "paused": True},
        },
    )
    assert made is not None
    assert (made.slots, made.minimum, made.maximum) == (12, 2, 7)
    assert (made.target_latency, made.idle_after, made.stabilization) == (10.0, 60.0, 90.0)
    assert (made.headroom, made.queue_limit, made.drain) == (1.0, 50, True)
    assert (made.up_pods, made.up_percent, made.up_period) == (1, 10, 30.0)
    assert (made.in_percent, made.in_paused) == (50, True)
    assert not made.subscription.matches("x")


def test_manual_is_a_fixed_number() -> None:
    made = policy(replicas=3)
    assert made is not None
    assert made.fixed == 3


def test_somebody_elses_scaling_is_advised_only_when_asked_for() -> None:
    assert policy(autoscaling={"mode": "External"}) is None
    queue = parse_task_queue(a_task_queue(workers=workers(autoscaling={"mode": "External"})))
    assert scaling_policy(queue, {}, advise=True) is not None
