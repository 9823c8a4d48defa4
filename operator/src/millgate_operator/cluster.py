"""The Cluster protocol, and the Kubernetes client behind it: the only place that speaks to the API server itself.

Objects are dicts as the API gives them. Calls block, at most TIMEOUT seconds, and are safe from several threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from millgate_operator.names import API_VERSION, MANAGER

TIMEOUT: Final = 15.0
_PAGE: Final = 500
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"

#: (API version, kind) of what is asked for by name here and there.
DEFINITION: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")  # in no namespace
DEPLOYMENT: Final = ("apps/v1", "Deployment")
LEASE: Final = ("coordination.k8s.io/v1", "Lease")
POD: Final = ("v1", "Pod")
SECRET: Final = ("v1", "Secret")
TASK_QUEUE: Final = (API_VERSION, "TaskQueue")
TOPIC: Final = (API_VERSION, "Topic")
#: → plural, of every kind that this operator touches.
PLURALS: Final[Mapping[tuple[str, str], str]] = {
    DEFINITION: "customresourcedefinitions",
    DEPLOYMENT: "deployments",
    LEASE: "leases",
    POD: "pods",
    SECRET: "secrets",
    TASK_QUEUE: "taskqueues",
    TOPIC: "topics",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Service"): "services",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("events.k8s.io/v1", "Event"): "events",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
}


class ClusterError(Exception):
    """The API server refused, or could not be reached; `status` 0: it did not answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason

    @property
    def passing(self) -> bool:
        """Whether the same call may work later."""
        return self.status in (0, 409, 410, 429) or self.status >= 500  # 410: a list took too long


class Cluster(Protocol):
    """What the operator asks of a cluster."""

    def get(self, kind: tuple[str, str], namespace: str, name: str) -> dict[str, Any] | None:
        """One object; None: it is not there. Raises ClusterError, as every verb."""

    def list(
        self,
        kind: tuple[str, str],
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> list[dict[str, Any]]:
        """The objects of a kind, in one namespace or in all, that the selectors choose."""

    def apply(self, obj: Mapping[str, Any], manager: str = MANAGER) -> dict[str, Any]:
        """Server-side apply: what `obj` says holds afterwards, whoever said something else before."""

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        """Create an object; None: the name is taken."""

    def replace(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Write an object whose resourceVersion is still the newest; otherwise ClusterError 409."""

    def annotate(
        self, kind: tuple[str, str], namespace: str, name: str, values: Mapping[str, str | None]
    ) -> None:
        """Set annotations, None removes one; nothing happens when the object is not there."""

    def delete(self, kind: tuple[str, str], namespace: str, name: str, uid: str) -> None:
        """Delete exactly this object; nothing happens when it, or this incarnation of it, is not there."""

    def set_finalizers(self, obj: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        """Set the finalizers of exactly this version of an object; another one is ClusterError 409."""

    def patch_status(self, obj: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Set the whole status of an object by server-side apply; nothing happens when it is not there."""


class KubernetesCluster:
    """The cluster that a kubeconfig, or the pod's own service account, leads to."""

    def __init__(self, calls: Callable[[str, int], None] | None = None) -> None:
        """Raises ClusterError when neither is there. `calls` is told the verb and status of every request."""
        # imported late: 45 MiB that neither the generator nor a pure test needs
        from kubernetes import client, config

        configuration: Any = client.Configuration()
        load: Any = config  # its loaders have no types
        try:
            load.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            try:
                load.load_kube_config(client_configuration=configuration)
            except config.ConfigException as error:
                raise ClusterError(0, "NoCluster", f"no cluster to work for: {error}") from error
        configuration.connection_pool_maxsize = 16
        self._configuration = configuration
        self._pool = client.ApiClient(configuration).rest_client.pool_manager
        self._calls = calls

    def get(self, kind: tuple[str, str], namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return self._call("GET", _path(kind, namespace, name))
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self,
        kind: tuple[str, str],
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        query = {"limit": str(_PAGE), "labelSelector": labels, "fieldSelector": fields}
        while True:
            page = self._call("GET", _path(kind, namespace), query)
            found += page["items"]
            if not page["metadata"].get("continue"):
                break
            query["continue"] = page["metadata"]["continue"]
        for item in found:  # a list's items come without them
            item.setdefault("apiVersion", kind[0])
            item.setdefault("kind", kind[1])
        return found

    def apply(self, obj: Mapping[str, Any], manager: str = MANAGER) -> dict[str, Any]:
        query = {"fieldManager": manager, "force": "true"}
        return self._call("PATCH", _path_of(obj), query, obj, _APPLY)

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        meta = obj["metadata"]
        path = _path((obj["apiVersion"], obj["kind"]), meta["namespace"])
        try:
            return self._call("POST", path, {"fieldManager": MANAGER}, obj)
        except ClusterError as error:
            if error.status == 409:
                return None
            raise

    def replace(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("PUT", _path_of(obj), {"fieldManager": MANAGER}, obj)

    def annotate(
        self, kind: tuple[str, str], namespace: str, name: str, values: Mapping[str, str | None]
    ) -> None:
        body = {"metadata": {"annotations": dict(values)}}
        query = {"fieldManager": MANAGER}
        self._unless_gone("PATCH", _path(kind, namespace, name), query, body, _MERGE)

    def delete(self, kind: tuple[str, str], namespace: str, name: str, uid: str) -> None:
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        self._unless_gone("DELETE", _path(kind, namespace, name), {}, body)

    def set_finalizers(self, obj: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        version = obj["metadata"]["resourceVersion"]
        body = {"metadata": {"finalizers": list(finalizers), "resourceVersion": version}}
        self._call("PATCH", _path_of(obj), {"fieldManager": MANAGER}, body, _MERGE)

    def patch_status(self, obj: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        meta = obj["metadata"]
        body = {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "status": status,
        }
        query = {"fieldManager": MANAGER, "force": "true"}
        self._unless_gone("PATCH", _path_of(obj) + "/status", query, body, _APPLY)

    def _unless_gone(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any],
        content: str = "application/json",
    ) -> None:
        try:
            self._call(method, path, query, body, content)
        except ClusterError as error:
            # 409 with a precondition: another object has the name now, and that one is not meant
            if error.status != 404 and not (error.status == 409 and method == "DELETE"):
                raise

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
    ) -> dict[str, Any]:
        from urllib3.exceptions import HTTPError
        from urllib3.util import Timeout

        url = self._configuration.host + path + ("?" + urlencode(query) if query else "")
        headers = {"Accept": "application/json", "Content-Type": content}
        for setting in self._configuration.auth_settings().values():
            headers[setting["key"]] = setting["value"]
        data = json.dumps(body).encode() if body is not None else None
        try:
            answer = self._pool.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=Timeout(connect=5.0, read=TIMEOUT),
                retries=False,
            )
        except HTTPError as error:
            self._count(method, 0)
            raise ClusterError(
                0, "Unreachable", f"the API server did not answer: {error}"
            ) from error
        self._count(method, answer.status)
        return _read(answer.status, answer.data)

    def _count(self, verb: str, status: int) -> None:
        if self._calls is not None:
            self._calls(verb, status)


def _read(status: int, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data) if data else {}
    except ValueError:
        value = {"message": data[:200].decode("utf-8", "replace")}
    if status >= 400:
        raise ClusterError(
            status, value.get("reason") or "Unknown", value.get("message") or f"status {status}"
        )
    result: dict[str, Any] = value
    return result


def _path(kind: tuple[str, str], namespace: str | None, name: str = "") -> str:
    version, _ = kind
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{PLURALS[kind]}" + (f"/{name}" if name else "")


def _path_of(obj: Mapping[str, Any]) -> str:
    meta = obj["metadata"]
    return _path((obj["apiVersion"], obj["kind"]), meta["namespace"], meta["name"])


def kind_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    """An object's API version and kind."""
    return obj["apiVersion"], obj["kind"]
