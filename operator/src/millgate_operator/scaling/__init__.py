"""The autoscaler's decisions, from readings to actions. Pure: whoever calls it reads, waits and acts.

policy = scaling_policy(queue, topics)
decision, memory = decide(policy, memory, clock.monotonic(), stats, pool)
"""

from millgate_operator.scaling.decide import TICK, Memory, decide
from millgate_operator.scaling.pods import pool
from millgate_operator.scaling.policy import scaling_policy
from millgate_operator.scaling.removal import confirm
from millgate_operator.scaling.values import (
    FENCE_TTL,
    Decision,
    Pod,
    Pool,
    Reason,
    ScalingPolicy,
    Terms,
)

__all__ = [
    "FENCE_TTL",
    "TICK",
    "Decision",
    "Memory",
    "Pod",
    "Pool",
    "Reason",
    "ScalingPolicy",
    "Terms",
    "confirm",
    "decide",
    "pool",
    "scaling_policy",
]
