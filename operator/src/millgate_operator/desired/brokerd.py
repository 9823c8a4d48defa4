"""The pod that is a queue's Local broker: StatefulSet, Service, network policy, and the Secret with its key. Pure."""

from __future__ import annotations

import base64
from typing import Any, Final

from millgate_operator import names
from millgate_operator.desired.objects import CONTAINER_SECURITY, POD_SECURITY, an_object
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue

_REQUESTS: Final = {"requests": {"cpu": "50m", "memory": "64Mi"}}
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
    volumes: list[dict[str, Any]] = [
        {"name": "key", "secret": {"secretName": names.brokerd(name), "defaultMode": 0o440}},
        {"name": "tmp", "emptyDir": {}},
    ]
    made["spec"] = {
        "replicas": 1,
        "serviceName": names.brokerd(name),
        "selector": {"matchLabels": names.selector(name, names.BROKER)},
        "template": {
            "metadata": {"labels": names.labels(name, names.BROKER)},
            "spec": {
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 30,
                "securityContext": dict(POD_SECURITY),
                "containers": [_container(queue, settings)],
                "volumes": volumes,
            },
        },
    }
    if storage is None:
        volumes.append({"name": "data", "emptyDir": {}})
    else:
        made["spec"]["volumeClaimTemplates"] = [_claim(storage.size, storage.storage_class_name)]
        made["spec"]["persistentVolumeClaimRetentionPolicy"] = {
            "whenDeleted": queue.spec.deletion_policy,
            "whenScaled": "Retain",
        }
    return made


def _container(queue: TaskQueue, settings: OperatorSettings) -> dict[str, Any]:
    local = queue.spec.broker.local
    resources = local.resources if local else None
    listen = f"0.0.0.0:{names.BROKERD_PORT}"
    return {
        "name": names.BROKERD,
        "image": settings.broker_image,
        "imagePullPolicy": settings.broker_pull_policy,
        "command": ["millgate", "brokerd"],
        "args": ["--listen", listen, "--key-file", names.KEY_FILE, "--data", _DATA],
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 -- the pod's own emptyDir
        "ports": [{"name": "broker", "containerPort": names.BROKERD_PORT, "protocol": "TCP"}],
        "resources": resources if resources is not None else dict(_REQUESTS),
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _probe(1, 60),
        "readinessProbe": _probe(5, 2),
        "livenessProbe": _probe(10, 6),
        "volumeMounts": [
            {"name": "key", "mountPath": names.KEY_DIR, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 -- the pod's own emptyDir
        ],
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
