"""Custom resource definitions out of the models: structural schemas, columns, subresources. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from millgate_operator import names
from millgate_operator.spec.parse import (
    LOCAL_NAME_MESSAGE,
    NAME_MESSAGE,
    TOPIC_NAME_MESSAGE,
)
from millgate_operator.spec.status import TaskQueueStatus, TopicStatus
from millgate_operator.spec.taskqueue import TaskQueueSpec
from millgate_operator.spec.topic import OTHER_TOPIC_MESSAGE, TopicSpec
from millgate_operator.spec.types import MAX_TOPIC_NAME

#: Lists whose items have an identity of their own: server-side apply merges them by it.
_KEYED: Final = {"conditions": "type", "env": "name", "containers": "name"}
_ATOMIC: Final = ("include", "exclude", "envFrom", "undeclared")
_DROPPED: Final = ("title", "additionalProperties", "nullable", "examples")


@dataclass(frozen=True, slots=True)
class Kind:
    """One custom resource."""

    kind: str
    plural: str
    short: str
    spec: type[BaseModel]
    status: type[BaseModel]
    description: str
    columns: tuple[Mapping[str, Any], ...]
    selectable: tuple[str, ...]
    rules: tuple[Mapping[str, str], ...]
    scale: Mapping[str, str] | None = None


def _column(name: str, path: str, kind: str = "string", **more: Any) -> Mapping[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, **more}


def _ready(name: str, part: str) -> Mapping[str, Any]:
    return _column(name, f'.status.conditions[?(@.type=="Ready")].{part}')


_AGE: Final = _column("Age", ".metadata.creationTimestamp", "date")

TASK_QUEUE: Final = Kind(
    kind="TaskQueue",
    plural="taskqueues",
    short="tq",
    spec=TaskQueueSpec,
    status=TaskQueueStatus,
    description="A TaskQueue is a broker, a queue of tasks on it, and the workers that run them.",
    columns=(
        _column("Broker", ".spec.broker.type"),
        _ready("Ready", "status"),
        _ready("Status", "reason"),
        _column("Workers", ".status.workers.ready", "integer"),
        _column("Desired", ".status.workers.desired", "integer"),
        _column("Queued", ".status.summary.queued", "integer"),
        _column("Running", ".status.summary.running", "integer"),
        _column("Oldest(s)", ".status.summary.oldestSeconds", "integer"),
        _AGE,
        _column("Dead", ".status.summary.dead", "integer", priority=1),
        _column("Suspend", ".spec.suspend", priority=1),
        _column("Decision", ".status.workers.decision.reason", priority=1),
    ),
    selectable=(".spec.broker.type",),
    rules=(
        {
            "rule": f"size(self.metadata.name) <= {names.MAX_QUEUE_NAME}",
            "message": NAME_MESSAGE,
        },
        {
            "rule": "self.spec.broker.type != 'Local' || !self.metadata.name.contains('.')",
            "message": LOCAL_NAME_MESSAGE,
        },
    ),
    scale={
        "specReplicasPath": ".spec.workers.replicas",
        "statusReplicasPath": ".status.workers.replicas",
        "labelSelectorPath": ".status.workers.selector",
    },
)

TOPIC: Final = Kind(
    kind="Topic",
    plural="topics",
    short="tqt",
    spec=TopicSpec,
    status=TopicStatus,
    description="A Topic is a lane of a TaskQueue, with limits that the broker enforces for the whole fleet.",
    columns=(
        _column("Queue", ".spec.queueRef.name"),
        _column("Pri", ".status.effective.priority", "integer"),
        _column("Limit", ".status.effective.limit", "integer"),
        _column("Queued", ".status.summary.queued", "integer"),
        _column("Running", ".status.summary.running", "integer"),
        _column("Dead", ".status.summary.dead", "integer"),
        _ready("Ready", "status"),
        _ready("Status", "reason"),
        _AGE,
        _column("Oldest(s)", ".status.summary.oldestSeconds", "integer", priority=1),
        _column("Applied", ".status.appliedBy.workers", "integer", priority=1),
    ),
    selectable=(".spec.queueRef.name",),
    rules=(
        {
            "rule": f"has(self.spec.topicName) || size(self.metadata.name) <= {MAX_TOPIC_NAME}",
            "message": TOPIC_NAME_MESSAGE,
        },
        {
            "rule": "has(self.spec.topicName) || !has(self.spec.deadLetter) || !has(self.spec.deadLetter.topic) || "
            "self.spec.deadLetter.topic != self.metadata.name",
            "message": OTHER_TOPIC_MESSAGE,
        },
    ),
)

KINDS: Final = (TASK_QUEUE, TOPIC)


def definition(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{names.GROUP}",
            "annotations": {names.ANNOTATION_SCHEMA: str(names.SCHEMA_VERSION)},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short],
                "categories": [names.CATEGORY],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale is not None:
        subresources["scale"] = dict(kind.scale)
    root: dict[str, Any] = {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "The API group and version."},
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"type": "object"},
            "spec": structural(kind.spec),
            "status": structural(kind.status),
        },
        "x-kubernetes-validations": [dict(rule) for rule in kind.rules],
    }
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": subresources,
        "additionalPrinterColumns": [dict(column) for column in kind.columns],
        "selectableFields": [{"jsonPath": path} for path in kind.selectable],
    }


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The model's structural schema: no references, no null branches, lists and open objects declared as such."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.pop("$defs", {})
    return _plain(schema, definitions)


def _plain(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """One node, its references put in, then its children."""
    node = _resolved(node, definitions)
    out = {key: value for key, value in node.items() if key not in _DROPPED}
    if out.get("default", 0) is None or out.get("default") == []:
        del out["default"]
    if out.get("type") == "object" and "properties" not in out:
        out["x-kubernetes-preserve-unknown-fields"] = True
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if "properties" in out:
        out["properties"] = {
            name: _property(name, child, definitions) for name, child in out["properties"].items()
        }
    if "items" in out:
        out["items"] = _plain(out["items"], definitions)
    return _ordered(out)


def _property(name: str, node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    out = _plain(node, definitions)
    if name in _KEYED and out.get("type") == "array":
        out |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [_KEYED[name]]}
    elif name in _ATOMIC:
        out["x-kubernetes-list-type"] = "atomic"
    return out


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The node itself: what `$ref` or the one branch beside null names, under the node's own words."""
    out = dict(node)
    while True:
        if "$ref" in out:
            target = definitions[out.pop("$ref").rsplit("/", 1)[-1]]
        elif "anyOf" in out and {"type": "null"} in out["anyOf"]:
            branches = [branch for branch in out.pop("anyOf") if branch != {"type": "null"}]
            target = branches[0]
        else:
            return out
        out = {**target, **out}


_FIRST: Final = ("description", "type", "enum", "default")


def _ordered(node: dict[str, Any]) -> dict[str, Any]:
    head = {key: node[key] for key in _FIRST if key in node}
    return head | {key: value for key, value in node.items() if key not in head}
