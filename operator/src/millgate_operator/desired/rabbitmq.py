"""The pods that own a queue on RabbitMQ: one serves, the others stand by; a Deployment and its budget. Pure."""

from __future__ import annotations

from typing import Any, Final

from millgate_operator import names
from millgate_operator.desired import brokerd_pod
from millgate_operator.desired.objects import an_object
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue
from millgate_operator.spec.taskqueue import Connection, RabbitMQBroker

_WEIGHT: Final = 100  # as strong as a wish can be


def brokerd_deployment(
    queue: TaskQueue, settings: OperatorSettings, secret_version: str
) -> dict[str, Any]:
    """The pods of brokerd, on different nodes where there are several.

    RabbitMQ itself sees to it that one of them serves, so new ones come before old ones go, and any may go first. A
    new version of the Secret replaces them: who is connected would never look at it, also when it names another server.
    """
    name = queue.meta.name
    replicas = _section(queue).replicas
    made = an_object("apps/v1", "Deployment", names.brokerd(name), queue, names.BROKER)
    made["spec"] = {
        "replicas": replicas,
        "selector": {"matchLabels": names.selector(name, names.BROKER)},
        "template": {
            "metadata": {
                "labels": names.labels(name, names.BROKER),
                "annotations": {names.ANNOTATION_CONFIG: secret_version},
            },
            "spec": _pod(queue, settings),
        },
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": 600,
        "strategy": {
            "type": "RollingUpdate",
            # a lone pod is replaced only when its successor stands by
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": min(1, replicas - 1)},
        },
    }
    return made


def brokerd_budget(queue: TaskQueue) -> dict[str, Any] | None:
    """What a node drain may take at once; None for one pod, whose node could otherwise never be drained."""
    if _section(queue).replicas == 1:
        return None
    name = queue.meta.name
    made = an_object("policy/v1", "PodDisruptionBudget", names.brokerd(name), queue, names.BROKER)
    made["spec"] = {
        "selector": {"matchLabels": names.selector(name, names.BROKER)},
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return made


def _section(queue: TaskQueue) -> RabbitMQBroker:
    return queue.spec.broker.rabbitmq or RabbitMQBroker.model_validate({})


def _pod(queue: TaskQueue, settings: OperatorSettings) -> dict[str, Any]:
    connection = queue.spec.broker.connection
    assert connection is not None
    secret = {"secretName": connection.secret_ref.name, "defaultMode": 0o440}
    apart = {"preferredDuringSchedulingIgnoredDuringExecution": [_apart(queue.meta.name)]}
    made = brokerd_pod.pod(
        _container(queue, connection, settings), [{"name": "broker", "secret": secret}]
    )
    return made | {"affinity": {"podAntiAffinity": apart}}


def _apart(name: str) -> dict[str, Any]:
    labels = {"matchLabels": names.selector(name, names.BROKER)}
    return {
        "weight": _WEIGHT,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels},
    }


def _container(
    queue: TaskQueue, connection: Connection, settings: OperatorSettings
) -> dict[str, Any]:
    arguments = {
        "--broker-file": f"{names.BROKER_DIR}/{connection.secret_ref.key}",
        "--queue": queue.broker_queue,
        "--metrics": f"0.0.0.0:{names.HTTP_PORT}",
    }
    mount = {"name": "broker", "mountPath": names.BROKER_DIR, "readOnly": True}
    flags = [part for pair in arguments.items() for part in pair]
    return brokerd_pod.container(settings, flags, _section(queue).resources, [mount]) | {
        "ports": [{"name": "http", "containerPort": names.HTTP_PORT, "protocol": "TCP"}],
        # no pod starts again because RabbitMQ is away; one that hangs loses the queue with its heartbeats
        "livenessProbe": _probe("/livez", 10, 6),
        "readinessProbe": _probe("/readyz", 2, 3),
    }


def _probe(path: str, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
