"""The scaling policy that a manifest comes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from millgate.limits import parse_duration
from millgate.queues import TopicPolicy
from millgate_operator.scaling.values import ScalingPolicy
from millgate_operator.spec import Autoscaling, TaskQueue, subscription

_HEADROOM: Final = {"Low": 0.0, "Normal": 0.5, "High": 1.0}


def scaling_policy(
    queue: TaskQueue,
    topics: Mapping[str, TopicPolicy],
    *,
    paused: bool = False,
    advise: bool = False,
) -> ScalingPolicy | None:
    """How the queue's pool is sized; None when somebody else does it, or there is no pool.

    `topics` are the resolved policies by topic name; `paused` stops scale-in. With
    `advise` there is a policy in mode External too: what Auto would do, for whoever scales to read.
    """
    workers = queue.spec.workers
    if workers is None or (workers.mode == "External" and not advise):
        return None
    auto = workers.autoscaling or Autoscaling.model_validate({})
    least = _minimum(queue, auto)
    up, down = auto.scale_up, auto.scale_in
    limits = {name: policy.effective_limit for name, policy in topics.items()}
    return ScalingPolicy(
        slots=workers.capacity,
        minimum=least,
        maximum=auto.max if auto.max is not None else max(10, least),
        target_latency=parse_duration(auto.target_latency or "30s"),
        idle_after=parse_duration(auto.idle_after or "5m"),
        stabilization=parse_duration(auto.stabilization) if auto.stabilization else None,
        headroom=_HEADROOM[auto.headroom or "Normal"],
        up_pods=up.pods if up else 8,
        up_percent=up.percent if up else 100,
        up_period=parse_duration(up.period) if up else 15.0,
        in_percent=down.percent if down else 25,
        in_paused=paused or (down.paused if down else False),
        fixed=workers.replicas if workers.mode == "Manual" else None,
        drain=queue.spec.suspend == "HoldAndDrain",
        subscription=subscription(workers),
        limits={name: limit for name, limit in limits.items() if limit is not None},
        queue_limit=queue.spec.limits.max_in_flight if queue.spec.limits else None,
    )


def _minimum(queue: TaskQueue, auto: Autoscaling) -> int:
    if auto.min is not None:
        return auto.min
    least = 1 if queue.spec.broker.type == "Local" else 0
    return least if auto.max is None else min(least, auto.max)
