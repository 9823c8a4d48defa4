"""Makes the cluster what it should be: server-side apply, ours pruned, replicas left to whoever scales."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from millgate_operator import desired, names
from millgate_operator.cluster import DEPLOYMENT, Cluster, ClusterError, kind_of
from millgate_operator.desired.objects import digest
from millgate_operator.errors import Blocked, RetryLater
from millgate_operator.spec import TaskQueue

_Id = tuple[str, str, str, str]
#: What the API server says, as an error of its own (500), of an object with a field of the wrong type or one twice.
_UNTYPED: Final = "failed to create typed patch object"
#: Times that the replicas of a Deployment which changes all the time are taken over.
_TRIES: Final = 5


class Applier:
    """Applies objects, and knows which of them still are as they were applied."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[_Id, tuple[str, str]] = {}  # → (digest of the wish, mark of the result)
        #: Queue → its uid, kept.
        self._pruned: dict[tuple[str, str], tuple[str, frozenset[_Id]]] = {}
        self._lock = threading.Lock()

    def apply(self, wish: Mapping[str, Any]) -> None:
        """Apply one object unless it is known to be so. Raises Blocked and RetryLater."""
        wanted = digest(wish)
        with self._lock:
            known = self._known.get(_id(wish))
        if known is not None and known[0] == wanted:
            return
        self._live(wish)
        self._remember(wish, wanted, _carefully(lambda: self._cluster.apply(wish)))

    def apply_deployment(self, wish: Mapping[str, Any], initial: int | None) -> None:
        """Apply a Deployment without touching its replicas; a new one begins with `initial` (None: the API's 1)."""
        wanted = digest(wish)
        with self._lock:
            known = self._known.get(_id(wish))
        if known is not None and known[0] == wanted:
            return
        live = self._live(wish)
        if initial is not None:
            if live is None:
                first = dict(wish) | {"spec": {**wish["spec"], "replicas": initial}}
                live = _carefully(lambda: self._cluster.apply(first))
            # before our first hold on replicas ends, or they would fall back to 1
            _carefully(lambda: self._take_over(live, initial))
        self._remember(wish, wanted, _carefully(lambda: self._cluster.apply(wish)))

    def _live(self, wish: Mapping[str, Any]) -> dict[str, Any] | None:
        """The object as it is. Raises Blocked when it is somebody else's."""
        meta = wish["metadata"]
        live: dict[str, Any] | None = _carefully(
            lambda: self._cluster.get(kind_of(wish), meta["namespace"], meta["name"])
        )
        if live is not None and not _ours(live, wish):
            raise Blocked(
                "NameConflict",
                f"{wish['kind']} {meta['name']} is there already and is not the operator's; remove it, or label it "
                f"{names.LABEL_QUEUE}={meta['labels'][names.LABEL_QUEUE]} to hand it over",
            )
        return live

    def _take_over(self, live: dict[str, Any], initial: int) -> None:
        """Own the replicas that a Deployment has; somebody may be changing them at this moment."""
        namespace, name = live["metadata"]["namespace"], live["metadata"]["name"]
        for _ in range(_TRIES):
            if _scaled_by_us(live):
                return
            count = live["spec"].get("replicas", initial)
            try:
                scale(self._cluster, namespace, name, count, live["metadata"]["resourceVersion"])
            except ClusterError as error:
                if error.status != 409:
                    raise
            else:
                return
            again = self._cluster.get(DEPLOYMENT, namespace, name)
            if again is None:
                break
            live = again
        raise ClusterError(409, "Conflict", f"Deployment {name} changes faster than it is read")

    def create(self, wish: Mapping[str, Any]) -> None:
        """Create an object unless there is one of its name."""
        _carefully(lambda: self._cluster.create(wish))

    def prune(self, queue: TaskQueue, wishes: Sequence[Mapping[str, Any]]) -> list[str]:
        """Delete what belongs to the queue and is not wished any more; answers the kinds and names.

        Nothing is asked while the wishes are the same objects as before, until `forget`.
        """
        kept = frozenset(_id(wish) for wish in wishes)
        key, state = (queue.meta.namespace, queue.meta.name), (queue.meta.uid, kept)
        with self._lock:
            if self._pruned.get(key) == state:
                return []
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
        with self._lock:
            self._pruned[key] = state
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
        with self._lock:
            if namespace is None or queue is None:
                self._known.clear()
                self._pruned.clear()
                return
            self._pruned.pop((namespace, queue), None)
            children = {names.workers(queue), names.brokerd(queue)}
            for known in [one for one in self._known if one[2] == namespace and one[3] in children]:
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
        untyped = _UNTYPED in str(error)
        if error.passing and not untyped:
            raise RetryLater("ApplyFailed", str(error)) from error
        reason = {403: "PermissionDenied", 422: "InvalidTemplate", 400: "InvalidTemplate"}
        word = "InvalidTemplate" if untyped else reason.get(error.status, "ApplyFailed")
        raise Blocked(word, str(error)) from error


def _scaled_by_us(live: Mapping[str, Any]) -> bool:
    return any(
        entry["manager"] == names.AUTOSCALER
        and "f:replicas" in entry.get("fieldsV1", {}).get("f:spec", {})
        for entry in live["metadata"].get("managedFields", ())
    )


def _ours(live: Mapping[str, Any], wish: Mapping[str, Any]) -> bool:
    """Whether an object was made for this queue, or for an earlier one of the same name."""
    has, wanted = live["metadata"], wish["metadata"]
    if (has.get("labels") or {}).get(names.LABEL_QUEUE) == wanted["labels"][names.LABEL_QUEUE]:
        return True
    mine = {owner["uid"] for owner in wanted["ownerReferences"]}
    return any(owner["uid"] in mine for owner in has.get("ownerReferences") or ())


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
