"""How many slots the work needs: what runs, what will run when a new pod could have started, and the backlog. Pure.

The forecast is the transient of an M/G/∞ queue: of F running tasks exp(-H/S) still run after the horizon H when a
run takes S, and arrivals at rate λ have built up λS(1 - exp(-H/S)) meanwhile. Short tasks come to Little's λS, long
ones to F + λH, so that long tasks are not provided for twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, floor, isinf, sqrt

from millgate.stats import TopicStats
from millgate_operator.scaling.signal import Signal
from millgate_operator.scaling.values import ScalingPolicy, Terms


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods that the work needs, before any bound but the work's own; and how that came about."""

    pods: int
    terms: Terms
    claimable: int
    running: int


def demand(
    policy: ScalingPolicy, signal: Signal, topics: Mapping[str, TopicStats], horizon: float
) -> Demand:
    """The demand of one pool; `horizon` is the seconds until a pod that is asked for now could work."""
    running = backlog = forecast = cap = 0.0
    oldest: float | None = None
    for name, topic in topics.items():
        flow = _flow(policy, signal, name, topic, horizon)
        running, backlog = running + flow.running, backlog + flow.backlog
        forecast, cap = forecast + flow.forecast, cap + flow.cap
        if topic.oldest is not None:
            oldest = max(oldest or 0.0, topic.oldest)
    if policy.queue_limit is not None:
        cap = min(cap, policy.queue_limit)
    # only whole tasks are foreseen: what is left of an old rate must not hold a pod for an hour
    need = max(running, floor(forecast + 1e-6)) + backlog
    headroom = policy.headroom * sqrt(need)
    need += headroom
    if backlog > 0 and oldest is not None and oldest > policy.target_latency:
        need *= 1.25  # what was reckoned was too little
    need = min(need, cap)  # a slot without a task is waste
    claimable = sum(topic.claimable or 0 for topic in topics.values())
    pods = ceil(need / policy.slots - 1e-9)
    if running + claimable > 0:
        pods = max(1, pods)
    return Demand(
        pods, Terms(running, backlog, forecast, headroom, cap, oldest), claimable, round(running)
    )


def _flow(
    policy: ScalingPolicy, signal: Signal, name: str, topic: TopicStats, horizon: float
) -> Terms:
    running, claimable = float(topic.leased or 0), float(topic.claimable or 0)
    learnt = signal.topics.get(name)
    # the long view bridges gaps in a flow that is there; where nothing is, only the last moments count
    flows = running + claimable > 0
    rate = 0.0 if learnt is None else learnt.rate if flows else learnt.fast
    service = learnt.service if learnt is not None else None
    if service is None:  # nothing has been seen running: every claimable task wants a slot
        forecast, backlog = running, claimable
    elif isinf(service):
        # a burst that is under way says little about what comes: the long view has to do
        rate = learnt.slow if learnt is not None else 0.0
        forecast, backlog = running + rate * horizon, claimable
    else:
        left = exp(-horizon / service)
        forecast = running * left + rate * service * (1 - left)
        backlog = min(claimable, claimable * service / policy.target_latency)
    cap = running + claimable + rate * horizon
    if name in policy.limits:
        cap = min(cap, policy.limits[name])
    return Terms(running, backlog, forecast, 0.0, cap)
