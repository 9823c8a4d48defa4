"""What the pods that own a queue have in common, a Local broker's and those of RabbitMQ: brokerd in them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from millgate_operator import names
from millgate_operator.desired.objects import CONTAINER_SECURITY, POD_SECURITY
from millgate_operator.settings import OperatorSettings

_REQUESTS: Final = {"requests": {"cpu": "50m", "memory": "64Mi"}}


def pod(container: dict[str, Any], volumes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The pod's spec."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": dict(POD_SECURITY),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *volumes],
    }


def container(
    settings: OperatorSettings,
    arguments: Sequence[str],
    resources: dict[str, Any] | None,
    mounts: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The container, without its ports and probes."""
    return {
        "name": names.BROKERD,
        "image": settings.broker_image,
        "imagePullPolicy": settings.broker_pull_policy,
        "command": ["millgate", "brokerd"],
        "args": list(arguments),
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 -- the pod's own emptyDir
        "resources": resources if resources is not None else dict(_REQUESTS),
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 -- the pod's own emptyDir
            *mounts,
        ],
    }
