"""Manifests in, values out: a dict passes here once, and every complaint names its field. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from millgate_operator.errors import InvalidSpec
from millgate_operator.names import (
    API_VERSION,
    MAX_BROKER_QUEUE,
    MAX_QUEUE_NAME,
    broker_queue,
)
from millgate_operator.spec.taskqueue import TaskQueueSpec
from millgate_operator.spec.topic import OTHER_TOPIC_MESSAGE, TopicSpec
from millgate_operator.spec.types import MAX_TOPIC_NAME

SpecT = TypeVar("SpecT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Meta:
    """What the operator reads of an object's metadata."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    created: str = ""  # RFC 3339
    deleting: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """A TaskQueue object, read."""

    meta: Meta
    spec: TaskQueueSpec

    @property
    def broker_queue(self) -> str:
        """The queue's name on its broker."""
        return self.spec.broker.prefix or broker_queue(self.meta.namespace, self.meta.name)


@dataclass(frozen=True, slots=True)
class Topic:
    """A Topic object, read."""

    meta: Meta
    spec: TopicSpec

    @property
    def name(self) -> str:
        """The name that tasks are sent to."""
        return self.spec.topic_name or self.meta.name


def parse(manifest: Mapping[str, Any], *, strict: bool = False) -> TaskQueue | Topic:
    """A TaskQueue or Topic, by the manifest's kind. Raises InvalidSpec.

    `strict` complains about unknown fields; without it they are passed over, because a newer schema may have them.
    """
    kind = manifest.get("kind")
    if manifest.get("apiVersion") != API_VERSION:
        raise InvalidSpec(
            f"apiVersion is {manifest.get('apiVersion')!r}; write apiVersion: {API_VERSION}"
        )
    if kind == "TaskQueue":
        return parse_task_queue(manifest, strict=strict)
    if kind == "Topic":
        return parse_topic(manifest, strict=strict)
    raise InvalidSpec(f"kind is {kind!r}; write kind: TaskQueue or kind: Topic")


def parse_task_queue(manifest: Mapping[str, Any], *, strict: bool = False) -> TaskQueue:
    """A TaskQueue. Raises InvalidSpec, naming every field that is wrong."""
    meta = _meta(manifest)
    if len(meta.name) > MAX_QUEUE_NAME:
        raise InvalidSpec(NAME_MESSAGE)
    queue = TaskQueue(meta, _spec(TaskQueueSpec, manifest, strict))
    if queue.spec.broker.type == "Local" and "." in meta.name:
        raise InvalidSpec(LOCAL_NAME_MESSAGE)
    if len(queue.broker_queue) > MAX_BROKER_QUEUE:
        raise InvalidSpec(
            f"spec.broker.prefix: without one the queue is called {queue.broker_queue} on its broker, and a name there "
            f"has at most {MAX_BROKER_QUEUE} characters; create the TaskQueue again with a prefix"
        )
    return queue


def parse_topic(manifest: Mapping[str, Any], *, strict: bool = False) -> Topic:
    """A Topic. Raises InvalidSpec, naming every field that is wrong."""
    topic = Topic(_meta(manifest), _spec(TopicSpec, manifest, strict))
    if len(topic.name) > MAX_TOPIC_NAME:
        raise InvalidSpec(TOPIC_NAME_MESSAGE)
    dead = topic.spec.dead_letter
    if dead is not None and dead.topic == topic.name:
        raise InvalidSpec(f"spec.deadLetter: {OTHER_TOPIC_MESSAGE}")
    return topic


NAME_MESSAGE: Final = (
    f"name must be at most {MAX_QUEUE_NAME} characters "
    "(the names of its Deployment and pods derive from it)"
)
LOCAL_NAME_MESSAGE: Final = (
    "the name of a TaskQueue with a Local broker must have no dot "
    "(the name of its Service derives from it)"
)
TOPIC_NAME_MESSAGE: Final = (
    f"the name of a topic has at most {MAX_TOPIC_NAME} characters; set topicName, "
    "or give the object a shorter name"
)


def _meta(manifest: Mapping[str, Any]) -> Meta:
    raw = manifest.get("metadata") or {}
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSpec("metadata.name is missing; give the object a name")
    return Meta(
        name=name,
        namespace=raw.get("namespace") or "default",
        uid=raw.get("uid") or "",
        generation=raw.get("generation") or 0,
        created=str(raw.get("creationTimestamp") or ""),
        deleting=bool(raw.get("deletionTimestamp")),
        annotations=raw.get("annotations") or {},
    )


def _spec(model: type[SpecT], manifest: Mapping[str, Any], strict: bool) -> SpecT:
    raw = manifest.get("spec")
    if not isinstance(raw, Mapping):
        raise InvalidSpec("spec is missing; see `kubectl explain` or the examples")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        unknown = [e["loc"] for e in error.errors() if e["type"] == "extra_forbidden"]
        if strict or len(unknown) < error.error_count():
            raise InvalidSpec(_complaints(error)) from None
    return model.model_validate(_without(raw, unknown))


def _without(raw: Mapping[str, Any], paths: list[tuple[int | str, ...]]) -> Any:
    slim: Any = copy.deepcopy(dict(raw))
    for path in paths:
        part = slim
        for step in path[:-1]:
            part = part[step]
        part.pop(path[-1], None)
    return slim


def _complaints(error: ValidationError) -> str:
    lines: dict[str, str] = {}  # of a union only the last branch's words: the one for texts
    for problem in error.errors(include_url=False):
        path = "spec" + "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}"
            for step in problem["loc"]
            if not _is_branch(step)
        )
        lines[path] = _words(problem)
    return "; ".join(f"{path}: {words}" for path, words in lines.items())


def _is_branch(step: int | str) -> bool:
    return isinstance(step, str) and (step == "int" or step.startswith("constrained-"))


def _words(problem: Any) -> str:
    kind, given = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        return "no such field; see `kubectl explain` for those there are"
    if kind == "missing":
        return "must be given"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        pattern = problem["ctx"]["pattern"]
        return f"{given!r} does not fit; {_EXAMPLES.get(pattern, f'it must match {pattern}')}"
    return (
        f"{problem['msg']} (it is {given!r})" if not isinstance(given, Mapping) else problem["msg"]
    )


_EXAMPLES: Final = {
    r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$": "write it like package.module:attribute",
    r"^([0-9]+(ms|s|m|h))+$": "write a duration like 90s, 15m, 1h30m or 250ms",
    r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$": "write an amount like 400Mi, 2Gi or 500M",
    r"^([0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?|[1-9][0-9]?%|100%)$": "write an amount like 400Mi or a share like 40%",
}
