"""Objects in memory, as the operator asks a cluster for them: for tests of what it does when a request fails.

What the API server itself decides (validation, ownership of fields, garbage collection) is tested on a real one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from millgate_operator.cluster import ClusterError, kind_of
from millgate_operator.names import MANAGER

_Id = tuple[str, str, str, str]


class Shelf:
    """A Cluster without a server. `fault` is asked before each request, and may raise for it."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self._objects: dict[_Id, dict[str, Any]] = {}
        self._versions = count(1)
        self.fault: Callable[[str, str], None] = lambda verb, kind: None
        self.requests: list[tuple[str, str]] = []
        for one in objects:
            self.put(one)

    def put(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """An object as somebody else wrote it; answers it as it is now."""
        made = copy.deepcopy(dict(obj))
        meta = made["metadata"]
        meta.setdefault("namespace", "shop")
        number = next(self._versions)
        meta.setdefault("uid", f"uid-{number}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta.setdefault("generation", 1)
        meta["resourceVersion"] = str(number)
        self._objects[self._id(made)] = made
        return copy.deepcopy(made)

    def there(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind."""
        return [one for key, one in self._objects.items() if key[1] == kind]

    # --- what the operator calls -----------------------------------------------------------------

    def get(self, kind: tuple[str, str], namespace: str, name: str) -> dict[str, Any] | None:
        self._ask("get", kind)
        return copy.deepcopy(self._objects.get((*kind, namespace, name)))

    def list(
        self,
        kind: tuple[str, str],
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> list[dict[str, Any]]:
        self._ask("list", kind)
        found = [
            one
            for key, one in self._objects.items()
            if key[:2] == kind and namespace in (None, key[2])
        ]
        return copy.deepcopy([one for one in found if _fits(one, labels, fields)])

    def apply(self, obj: Mapping[str, Any], manager: str = MANAGER) -> dict[str, Any]:
        self._ask("apply", kind_of(obj))
        live = self._objects.get(self._id(obj), {})
        asked = obj["metadata"].get("resourceVersion")
        if asked is not None and asked != live.get("metadata", {}).get("resourceVersion"):
            raise ClusterError(409, "Conflict", "another version")
        return self.put(_laid(live, obj))

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        self._ask("create", kind_of(obj))
        return None if self._id(obj) in self._objects else self.put(obj)

    def replace(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        self._ask("replace", kind_of(obj))
        return self.put(obj)

    def annotate(
        self, kind: tuple[str, str], namespace: str, name: str, values: Mapping[str, str | None]
    ) -> None:
        self._ask("annotate", kind)
        live = self._objects.get((*kind, namespace, name))
        if live is not None:
            self.put(_laid(live, {"metadata": {"annotations": dict(values)}}))

    def delete(self, kind: tuple[str, str], namespace: str, name: str, uid: str) -> None:
        self._ask("delete", kind)
        self._objects.pop((*kind, namespace, name), None)

    def set_finalizers(self, obj: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        self._ask("set_finalizers", kind_of(obj))
        live = self._objects[self._id(obj)]
        if live["metadata"].get("deletionTimestamp") and not finalizers:
            del self._objects[self._id(obj)]
            return
        self.put(_laid(live, {"metadata": {"finalizers": list(finalizers)}}))

    def patch_status(self, obj: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        self._ask("patch_status", kind_of(obj))
        if self._id(obj) in self._objects:
            self._objects[self._id(obj)]["status"] = copy.deepcopy(dict(status))

    def _ask(self, verb: str, kind: tuple[str, str]) -> None:
        self.requests.append((verb, kind[1]))
        self.fault(verb, kind[1])

    @staticmethod
    def _id(obj: Mapping[str, Any]) -> _Id:
        meta = obj["metadata"]
        return (*kind_of(obj), meta.get("namespace", "shop"), meta["name"])


def _laid(live: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(dict(live))
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = _laid(out[key], value)
        else:
            out[key] = copy.deepcopy(value)
    return out


def _fits(one: Mapping[str, Any], labels: str, fields: str) -> bool:
    has = one["metadata"].get("labels") or {}
    if any(has.get(key) != value for key, value in _pairs(labels)):
        return False
    return all(_at(one, path.split(".")) == value for path, value in _pairs(fields))


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    return [(part.partition("=")[0], part.partition("=")[2]) for part in text.split(",") if part]


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        value = (value or {}).get(step)
    return value
