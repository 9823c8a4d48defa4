"""Reads the cluster into values: the connection Secret, the pool and its pods. Raises Blocked and ClusterError."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from millgate_operator import names
from millgate_operator.cluster import DEPLOYMENT, POD, SECRET, TOPIC, Cluster
from millgate_operator.errors import Blocked
from millgate_operator.observed import Connection, WorkersView, pod_view, workers_view
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue

#: broker.type → how its URLs begin, what it is, one to copy.
_URLS: Final[dict[str, tuple[tuple[str, ...], str, str]]] = {
    "Postgres": (
        ("postgresql://", "postgres://"),
        "PostgreSQL",
        "postgresql://user:password@host/database",
    ),
    "Redis": (
        ("redis://", "rediss://", "redis+sentinel://"),
        "Redis",
        "redis://user:password@host:6379/0",
    ),
}


def topics_of(cluster: Cluster, namespace: str, queue: str) -> list[dict[str, Any]]:
    """The Topic objects that refer to a queue, whether there is such a queue or not."""
    return cluster.list(TOPIC, namespace, fields=f"spec.queueRef.name={queue}")


def connection(cluster: Cluster, queue: TaskQueue, settings: OperatorSettings) -> Connection:
    """How the queue's broker is reached from here. Raises Blocked: the Secret, or what must be in it, is not there."""
    reference = queue.spec.broker.connection
    if reference is None:
        return _local(cluster, queue, settings)
    name, key = reference.secret_ref.name, reference.secret_ref.key
    secret = cluster.get(SECRET, queue.meta.namespace, name)
    if secret is None:
        raise Blocked(
            "SecretMissing",
            f"Secret {name} is not there; create it in namespace {queue.meta.namespace} with the broker's URL under "
            f"the key {key}",
        )
    files = _files(secret)
    if key not in files:
        there = ", ".join(sorted(files)) or "none"
        raise Blocked(
            "SecretInvalid",
            f"Secret {name} has no key {key} (its keys: {there}); write the broker's URL there, or name another key "
            "in broker.connection.secretRef.key",
        )
    url = files[key].decode("utf-8", "replace").strip()
    _check_scheme(queue, name, key, url)
    return Connection(url, files, secret["metadata"]["resourceVersion"])


def _check_scheme(queue: TaskQueue, secret: str, key: str, url: str) -> None:
    kind = queue.spec.broker.type
    schemes, product, example = _URLS[kind]
    if not url.startswith(schemes):
        raise Blocked(
            "SecretInvalid",
            f"Secret {secret} has no {product} URL under the key {key}, as broker.type {kind} "
            f"needs; write {example}",
        )


def _local(cluster: Cluster, queue: TaskQueue, settings: OperatorSettings) -> Connection:
    name = names.brokerd(queue.meta.name)
    secret = cluster.get(SECRET, queue.meta.namespace, name)
    if secret is None:
        raise Blocked("SecretMissing", f"Secret {name} of the Local broker is not there yet")
    address = settings.local_address.format(service=name, namespace=queue.meta.namespace)
    files = _files(secret)
    url = f"local://{address}?key_file={names.KEY_FILE}"
    return Connection(url, files, secret["metadata"]["resourceVersion"])


def _files(secret: dict[str, Any]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    except binascii.Error as error:
        raise Blocked("SecretInvalid", f"Secret {secret['metadata']['name']}: {error}") from error


def workers(cluster: Cluster, namespace: str, queue: str) -> tuple[WorkersView, str] | None:
    """The pool and its pods, with the Deployment's resourceVersion; None: there is no Deployment."""
    deployment = cluster.get(DEPLOYMENT, namespace, names.workers(queue))
    if deployment is None:
        return None
    pods = cluster.list(POD, namespace, labels=names.selector_text(queue, names.WORKER))
    view = workers_view(deployment, [pod_view(pod, names.CONTAINER) for pod in pods])
    return view, deployment["metadata"]["resourceVersion"]
