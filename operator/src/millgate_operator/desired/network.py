"""Who may connect to the pods: scrapers and probes, and the cluster's pods to a Local broker. Pure.

What workers connect to is the tasks' business, and is not limited here.
"""

from __future__ import annotations

from typing import Any

from millgate_operator import names
from millgate_operator.desired.objects import an_object
from millgate_operator.spec import TaskQueue


def worker_policy(queue: TaskQueue) -> dict[str, Any]:
    """Nothing reaches a worker but its port for probes and metrics."""
    return _policy(queue, names.workers(queue.meta.name), names.WORKER, {"port": names.HTTP_PORT})


def brokerd_policy(queue: TaskQueue) -> dict[str, Any]:
    """Nothing reaches a brokerd on RabbitMQ but its port for probes and metrics: calls come through the server."""
    return _policy(queue, names.brokerd(queue.meta.name), names.BROKER, {"port": names.HTTP_PORT})


def broker_policy(queue: TaskQueue) -> dict[str, Any]:
    """A Local broker answers pods of this cluster only, and of them those with its key."""
    rule = {"port": names.BROKERD_PORT, "from": [{"namespaceSelector": {}}]}
    return _policy(queue, names.brokerd(queue.meta.name), names.BROKER, rule)


def _policy(queue: TaskQueue, name: str, component: str, rule: dict[str, Any]) -> dict[str, Any]:
    made = an_object("networking.k8s.io/v1", "NetworkPolicy", name, queue, component)
    ingress: dict[str, Any] = {"ports": [{"protocol": "TCP", "port": rule["port"]}]}
    if "from" in rule:
        ingress["from"] = rule["from"]
    made["spec"] = {
        "podSelector": {"matchLabels": names.selector(queue.meta.name, component)},
        "policyTypes": ["Ingress"],
        "ingress": [ingress],
    }
    return made
