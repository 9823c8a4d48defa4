"""The pod that is a queue's Local broker: StatefulSet, Service, network policy, and the Secret with its key. Pure."""

from __future__ import annotations

import base64
from typing import Any, Final

from millgate_operator import names
from millgate_operator.desired import brokerd_pod
from millgate_operator.desired.objects import an_object
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue

_DATA: Final = "/var/lib/millgate"


def key_secret(queue: TaskQueue, key: bytes) -> dict[str, Any]:
    """The Secret with the broker's key; it is created once, never written again."""
    made = an_object("v1", "Secret", names.brokerd(queue.meta.name), queue, names.BROKER)
    made |= {"type": "Opaque", "data": {"key": base64.b64encode(key).decode()}}
    return made


def service(queue: TaskQueue) -> dict[str, Any]:
    """The name under which workers and clients reach the broker."""
    name = queue.meta.name
    made = an_object("v1", "Service", names.brokerd(name), queue, names.BROKER)
    made["spec"] = {
        "type": "ClusterIP",
        "selector": names.selector(name, names.BROKER),
        "ports": [
            {
                "name": "broker",
                "port": names.BROKERD_PORT,
                "targetPort": "broker",
                "protocol": "TCP",
            }
        ],
    }
    return made


def stateful_set(queue: TaskQueue, settings: OperatorSettings) -> dict[str, Any]:
    """One broker pod, with a volume of its own when the manifest asks for one."""
    name = queue.meta.name
    local = queue.spec.broker.local
    storage = local.storage if local else None
    made = an_object("apps/v1", "StatefulSet", names.brokerd(name), queue, names.BROKER)
    secret = {"secretName": names.brokerd(name), "defaultMode": 0o440}
    volumes: list[dict[str, Any]] = [{"name": "key", "secret": secret}]
    if storage is None:
        volumes.append({"name": "data", "emptyDir": {}})
    made["spec"] = {
        "replicas": 1,
        "serviceName": names.brokerd(name),
        # in order, a pod that cannot start is waited for also when its template has been mended
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": names.selector(name, names.BROKER)},
        "template": {
            "metadata": {"labels": names.labels(name, names.BROKER)},
            "spec": brokerd_pod.pod(_container(queue, settings), volumes),
        },
    }
    if storage is not None:
        made["spec"]["volumeClaimTemplates"] = [_claim(storage.size, storage.storage_class_name)]
        made["spec"]["persistentVolumeClaimRetentionPolicy"] = {
            "whenDeleted": queue.spec.deletion_policy,
            "whenScaled": "Retain",
        }
    return made


def _container(queue: TaskQueue, settings: OperatorSettings) -> dict[str, Any]:
    local = queue.spec.broker.local
    resources = local.resources if local else None
    arguments = [
        *("--listen", f"0.0.0.0:{names.BROKERD_PORT}"),
        *("--key-file", names.KEY_FILE, "--data", _DATA),
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "key", "mountPath": names.KEY_DIR, "readOnly": True},
        {"name": "data", "mountPath": _DATA},
    ]
    return brokerd_pod.container(settings, arguments, resources, mounts) | {
        "ports": [{"name": "broker", "containerPort": names.BROKERD_PORT, "protocol": "TCP"}],
        "startupProbe": _probe(1, 60),
        "readinessProbe": _probe(5, 2),
        "livenessProbe": _probe(10, 6),
    }


def _probe(period: int, failures: int) -> dict[str, Any]:
    return {
        "tcpSocket": {"port": "broker"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _claim(size: int | str, storage_class: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(size)}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"metadata": {"name": "data"}, "spec": spec}
