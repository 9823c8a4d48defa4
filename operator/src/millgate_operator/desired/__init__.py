"""Every object that a queue needs in the cluster, from its manifest. Pure; one builder per object."""

from __future__ import annotations

from typing import Any

from millgate_operator.desired.account import service_account
from millgate_operator.desired.brokerd import key_secret, service, stateful_set
from millgate_operator.desired.config import config_map
from millgate_operator.desired.deployment import deployment
from millgate_operator.desired.disruption import disruption_budget
from millgate_operator.desired.network import broker_policy, brokerd_policy, worker_policy
from millgate_operator.desired.rabbitmq import brokerd_budget, brokerd_deployment
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue

__all__ = ["KINDS", "broker_objects", "key_secret", "worker_objects"]

#: Every kind that is made for a queue and may have to be taken away again, with its API version.
KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
)


def broker_objects(
    queue: TaskQueue, settings: OperatorSettings, secret_version: str = ""
) -> list[dict[str, Any]]:
    """What serves the queue, where the operator runs that: a Local broker (without its key), or brokerd on RabbitMQ.

    `secret_version` is of the connection Secret.
    """
    match queue.spec.broker.type:
        case "Local":
            return [service(queue), broker_policy(queue), stateful_set(queue, settings)]
        case "RabbitMQ":
            budget = brokerd_budget(queue)
            made = [brokerd_policy(queue), *([] if budget is None else [budget])]
            return [*made, brokerd_deployment(queue, settings, secret_version)]
    return []


def worker_objects(queue: TaskQueue) -> list[dict[str, Any]]:
    """What a pool needs, in the order in which it is needed. Raises Blocked for an overlay that cannot work."""
    if queue.spec.workers is None:
        return []
    made = [config_map(queue), service_account(queue), worker_policy(queue)]
    budget = disruption_budget(queue)
    if budget is not None:
        made.append(budget)
    return [*made, deployment(queue)]
