"""Makes the cluster what it should be: server-side apply, ours pruned, replicas left to whoever scales."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from millgate_operator import desired, names
from millgate_operator.cluster import DEPLOYMENT, Cluster, ClusterError, kind_of
from millgate_operator.desired.objects import digest
from millgate_operator.errors import Blocked, RetryLater
from millgate_operator.spec import TaskQueue

_Id = tuple[str, str, str, str]


class Applier:
    """Applies objects, and knows which of them still are as they were applied."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[_Id, tuple[str, str]] = {}  # → (digest of the wish, mark of the result)
        self._lock = threading.Lock()

    def apply(self, wish: Mapping[str, Any]) -> None:
        """Apply one object unless it is known to be so. Raises Blocked and RetryLater."""
        wanted = digest(wish)
        with self._lock:
            known = self._known.get(_id(wish))
        if known is not None and known[0] == wanted:
            return
        self._remember(wish, wanted, _carefully(lambda: self._cluster.apply(wish)))

    def apply_deployment(self, wish: Mapping[str, Any], initial: int | None) -> None:
        """Apply a Deployment without touching its replicas; a new one begins with `initial` (None: the API's 1)."""
        wanted = digest(wish)
        meta = wish["metadata"]
        with self._lock:
            known = self._known.get(_id(wish))
        if known is not None and known[0] == wanted:
            return
        live = _carefully(lambda: self._cluster.get(DEPLOYMENT, meta["namespace"], meta["name"]))
        if initial is not None:
            if live is None:
                first = dict(wish) | {"spec": {**wish["spec"], "replicas": initial}}
                live = _carefully(lambda: self._cluster.apply(first))
            if not _scaled_by_us(live):
                # before our first hold on replicas ends, or they would fall back to 1
                count = live["spec"].get("replicas", initial)
                _carefully(lambda: scale(self._cluster, meta["namespace"], meta["name"], count))
        self._remember(wish, wanted, _carefully(lambda: self._cluster.apply(wish)))

    def create(self, wish: Mapping[str, Any]) -> None:
        """Create an object unless there is one of its name."""
        _carefully(lambda: self._cluster.create(wish))

    def prune(self, queue: TaskQueue, wishes: Sequence[Mapping[str, Any]]) -> list[str]:
        """Delete what belongs to the queue and is not wished any more; answers the kinds and names."""
        kept = {_id(wish) for wish in wishes}
        labels = f"{names.LABEL_QUEUE}={queue.meta.name},{names.LABEL_MANAGED}={names.MANAGER}"
        gone = []
        for kind in desired.KINDS:
            for found in _carefully(
                lambda kind=kind: self._cluster.list(kind, queue.meta.namespace, labels=labels)
            ):
                if _id(found) in kept or not _owned(found, queue):
                    continue
                meta = found["metadata"]
                _carefully(
                    lambda kind=kind, meta=meta: self._cluster.delete(
                        kind, meta["namespace"], meta["name"], meta["uid"]
                    )
                )
                gone.append(f"{kind[1]} {meta['name']}")
        return gone

    def seen(self, obj: Mapping[str, Any], *, deleted: bool) -> bool:
        """Told of every change in the cluster: whether somebody else changed what we applied."""
        with self._lock:
            known = self._known.get(_id(obj))
            if known is None or (not deleted and known[1] == _mark(obj)):
                return False
            del self._known[_id(obj)]
            return True

    def forget(self, namespace: str | None = None, queue: str | None = None) -> None:
        """Take nothing for known any more (of one queue), so that everything is applied again."""
        prefix = (namespace, queue)
        with self._lock:
            for known in list(self._known):
                if queue is None or known[2:] in {
                    (prefix[0], names.workers(queue)),
                    (prefix[0], names.brokerd(queue)),
                }:
                    del self._known[known]

    def _remember(self, wish: Mapping[str, Any], wanted: str, result: Mapping[str, Any]) -> None:
        with self._lock:
            self._known[_id(wish)] = (wanted, _mark(result))


def scale(
    cluster: Cluster, namespace: str, name: str, replicas: int, version: str | None = None
) -> None:
    """Set the replicas of a Deployment; with `version` only if it is still that one (ClusterError 409)."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if version is not None:
        meta["resourceVersion"] = version
    wish = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta}
    cluster.apply(wish | {"spec": {"replicas": replicas}}, names.AUTOSCALER)


def new_key() -> bytes:
    """A key for a Local broker."""
    return secrets.token_hex(32).encode()


def _carefully(call: Any) -> Any:
    try:
        return call()
    except ClusterError as error:
        if error.passing:
            raise RetryLater("ApplyFailed", str(error)) from error
        reason = {403: "PermissionDenied", 422: "InvalidTemplate", 400: "InvalidTemplate"}
        raise Blocked(reason.get(error.status, "ApplyFailed"), str(error)) from error


def _scaled_by_us(live: Mapping[str, Any]) -> bool:
    return any(
        entry["manager"] == names.AUTOSCALER
        and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
        for entry in live["metadata"].get("managedFields", ())
    )


def _owned(obj: Mapping[str, Any], queue: TaskQueue) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == queue.meta.uid for owner in owners)


def _id(obj: Mapping[str, Any]) -> _Id:
    meta = obj["metadata"]
    return (*kind_of(obj), meta["namespace"], meta["name"])


def _mark(obj: Mapping[str, Any]) -> str:
    """What changes when somebody changes more than a status."""
    meta = obj["metadata"]
    return f"{meta['uid']}/{meta.get('generation') or meta['resourceVersion']}"
