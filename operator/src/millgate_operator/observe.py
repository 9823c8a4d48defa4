"""Reads the cluster into values: the connection Secret, the pool and its pods. Raises Blocked and ClusterError."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

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
    "RabbitMQ": (
        ("amqp://", "amqps://"),
        "RabbitMQ",
        "amqp://user:password@host/vhost",
    ),
}

_PORT: Final = re.compile(r":\d*\Z")
_SHORT: Final = re.compile(r"(?!localhost\Z)[A-Za-z][A-Za-z0-9_-]*\Z")


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
    if queue.spec.broker.type == "RabbitMQ":
        url = _only_calling(url)
    return Connection(url, files, secret["metadata"]["resourceVersion"])


def secret_version(cluster: Cluster, queue: TaskQueue, settings: OperatorSettings) -> str:
    """The version of the Secret that brokerd should have read; while it cannot be read, the one that brokerd has."""
    try:
        return connection(cluster, queue, settings).version
    except Blocked:
        found = cluster.get(DEPLOYMENT, queue.meta.namespace, names.brokerd(queue.meta.name))
    template = found["spec"]["template"]["metadata"] if found is not None else {}
    version: str = (template.get("annotations") or {}).get(names.ANNOTATION_CONFIG, "")
    return version


def _only_calling(url: str) -> str:
    """The URL for somebody who starts no brokerd: there are pods for that."""
    base, mark, fragment = url.partition("#")
    return f"{base}{'&' if '?' in base else '?'}brokerd=never{mark}{fragment}"


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
    if "key" not in (secret.get("data") or {}):
        raise Blocked(
            "NameConflict",
            f"Secret {name} is there already and is not the operator's: it has no key `key`; remove it, the Local "
            "broker needs its name",
        )
    address = settings.local_address.format(service=name, namespace=queue.meta.namespace)
    files = _files(secret)
    url = f"local://{address}?key_file={names.KEY_FILE}"
    return Connection(url, files, secret["metadata"]["resourceVersion"])


def _files(secret: dict[str, Any]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    except binascii.Error as error:
        raise Blocked("SecretInvalid", f"Secret {secret['metadata']['name']}: {error}") from error


def out_of_reach(
    cluster: Cluster, queue: TaskQueue, connection: Connection, settings: OperatorSettings
) -> str:
    """What may keep a broker from answering, beside what its driver says; empty: nothing that is known here."""
    meta, words = queue.meta, []
    if meta.namespace != settings.namespace and queue.spec.broker.connection is not None:
        words += [
            f"pods of namespace {meta.namespace} find {host}, the operator in {settings.namespace} does not: write "
            f"{host}.{meta.namespace}.svc in the Secret, which is good everywhere"
            for host in short_hosts(connection.url)
        ]
    if queue.spec.broker.type == "RabbitMQ":
        words += _brokerd_trouble(cluster, meta.namespace, meta.name)
    return "; ".join(words)


def short_hosts(url: str) -> list[str]:
    """The hosts of a URL that mean something in one namespace only: names without a dot."""
    parts = urlsplit(url)
    listed = parts.netloc.rpartition("@")[2].split(",")
    listed += [value for name, value in parse_qsl(parts.query) if name == "host"]
    return [host for text in listed if _SHORT.match(host := _PORT.sub("", text))]


def _brokerd_trouble(cluster: Cluster, namespace: str, queue: str) -> list[str]:
    name = names.brokerd(queue)
    deployment = cluster.get(DEPLOYMENT, namespace, name)
    if deployment is None:
        return [f"the Deployment {name} of its brokerd is not there yet"]
    pods = cluster.list(POD, namespace, labels=names.selector_text(queue, names.BROKER))
    view = workers_view(deployment, [pod_view(pod, names.BROKERD) for pod in pods])
    if view.ready:
        return []
    ill = [f"pod {pod.name}: {pod.detail}" for pod in view.pods if pod.detail][:1]
    return [f"of brokerd's Deployment {name}, 0 of {view.desired} are ready", *ill]


def workers(cluster: Cluster, namespace: str, queue: str) -> tuple[WorkersView, str] | None:
    """The pool and its pods, with the Deployment's resourceVersion; None: there is no Deployment."""
    deployment = cluster.get(DEPLOYMENT, namespace, names.workers(queue))
    if deployment is None:
        return None
    pods = cluster.list(POD, namespace, labels=names.selector_text(queue, names.WORKER))
    view = workers_view(deployment, [pod_view(pod, names.CONTAINER) for pod in pods])
    return view, deployment["metadata"]["resourceVersion"]
