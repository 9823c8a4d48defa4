"""What every object made for a queue has in common: identity, labels, owner. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from millgate_operator import names
from millgate_operator.spec import TaskQueue

#: Non-root, as in our own images; a Secret's and an emptyDir's files are readable through the group.
USER: Final = 10001

CONTAINER_SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
POD_SECURITY: Final[Mapping[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def an_object(
    api_version: str, kind: str, name: str, queue: TaskQueue, component: str
) -> dict[str, Any]:
    """The head of an object that belongs to `queue` and goes with it."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": queue.meta.namespace,
            "labels": names.labels(queue.meta.name, component),
            "ownerReferences": [owner(queue)],
        },
    }


def owner(queue: TaskQueue) -> dict[str, Any]:
    """The reference by which the cluster removes an object when its queue goes."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TaskQueue",
        "name": queue.meta.name,
        "uid": queue.meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def digest(value: Any) -> str:
    """A short text that changes with `value` (JSON types)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
