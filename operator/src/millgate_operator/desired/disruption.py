"""The PodDisruptionBudget of a pool: how much of it a node drain may take at once. Pure."""

from __future__ import annotations

from typing import Any

from millgate_operator import names
from millgate_operator.desired.objects import an_object
from millgate_operator.spec import TaskQueue, Workers
from millgate_operator.spec.workers import Disruption


def disruption_budget(queue: TaskQueue) -> dict[str, Any] | None:
    """The budget; None for a pool of at most one pod, whose node could otherwise never be drained."""
    workers = queue.spec.workers
    assert workers is not None
    if _most(workers) <= 1:
        return None
    name = queue.meta.name
    made = an_object("policy/v1", "PodDisruptionBudget", names.workers(name), queue, names.WORKER)
    wanted = workers.disruption or Disruption.model_validate({})
    made["spec"] = {
        "selector": {"matchLabels": names.selector(name, names.WORKER)},
        "maxUnavailable": wanted.max_unavailable,
        # a pod that does not work is nothing to protect, and would block the drain for ever
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return made


def _most(workers: Workers) -> int:
    if workers.mode == "Manual":
        return workers.replicas or 0
    auto = workers.autoscaling
    if auto is None or auto.max is None:
        return 10
    return auto.max
