"""Reads the manifests of a folder with the operator's own parser; every complaint names its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from millgate_operator.errors import InvalidSpec
from millgate_operator.names import GROUP
from millgate_operator.spec import TaskQueue, Topic, parse

SUFFIXES: Final = (".yaml", ".yml")
Key = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class Manifests:
    """What a folder declares. `folders` says where a queue's manifest lies: its code is looked for there."""

    queues: tuple[TaskQueue, ...]
    topics: tuple[Topic, ...]
    folders: Mapping[Key, Path]

    def topics_of(self, queue: TaskQueue) -> tuple[Topic, ...]:
        """The Topics that name this queue."""
        return tuple(topic for topic in self.topics if _owner(topic) == key(queue))

    def label_of(self, queue: TaskQueue) -> str:
        """What a queue and its workers are called: its name, with its namespace where two have one name."""
        names = [other.meta.name for other in self.queues]
        return queue.meta.name if names.count(queue.meta.name) < 2 else ".".join(key(queue))

    def folder_of(self, queue: TaskQueue) -> Path:
        """Where the queue's manifest lies."""
        return self.folders[key(queue)]


def key(queue: TaskQueue) -> Key:
    """What tells queues apart."""
    return queue.meta.namespace, queue.meta.name


def read(path: Path) -> Manifests:
    """All TaskQueues and Topics of a folder (its subfolders not), or of one file.

    Raises InvalidSpec for a manifest that cannot be used, a Topic without its queue, two objects of one name, and
    when there is no TaskQueue at all. Objects of other API groups are passed over.
    """
    queues: dict[Key, TaskQueue] = {}
    topics: dict[Key, Topic] = {}
    folders: dict[Key, Path] = {}
    found: dict[tuple[str, Key], Path] = {}
    for file, document in _documents(path):
        item = _parsed(file, document)
        name = (item.meta.namespace, item.meta.name)
        first = found.setdefault((document["kind"], name), file)
        if name in (queues if isinstance(item, TaskQueue) else topics):
            raise InvalidSpec(
                f"{file}: {document['kind']} {item.meta.name} is declared twice, first in {first}"
            )
        if isinstance(item, TaskQueue):
            queues[name], folders[name] = item, file.parent.resolve()
        else:
            topics[name] = item
    if not queues:
        raise InvalidSpec(f"{path}: no TaskQueue in its *.yaml files; declare one")
    _check_owners(queues, topics)
    _check_places(queues.values())
    return Manifests(tuple(queues.values()), tuple(topics.values()), folders)


def _documents(path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if not path.exists():
        raise InvalidSpec(f"{path}: no such folder; -f names a folder with manifests, or one file")
    files = [path] if path.is_file() else sorted(path.iterdir())
    for file in files:
        if file.suffix not in SUFFIXES or not file.is_file():
            continue
        yield from ((file, document) for document in _parts(file) if _ours(document))


def _parts(file: Path) -> list[Any]:
    try:
        return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValueError) as error:  # bytes that are no text, or a 13th month
        raise InvalidSpec(f"{file}: not YAML: {_where(error)}") from error
    except RecursionError as error:
        raise InvalidSpec(f"{file}: this is nested too deeply") from error
    except OSError as error:
        raise InvalidSpec(f"{file}: cannot be read: {error.strerror}") from error


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', None) or 'not understood'}"


def _ours(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    return str(document.get("apiVersion", "")).partition("/")[0] == GROUP


def _parsed(file: Path, document: Mapping[str, Any]) -> TaskQueue | Topic:
    try:
        return parse(document, strict=True)
    except InvalidSpec as error:
        metadata = document.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
        raise InvalidSpec(f"{file}: {document.get('kind', '?')} {name}: {error}") from error


def _check_places(queues: Iterable[TaskQueue]) -> None:
    places: dict[str, TaskQueue] = {}
    for queue in queues:
        first = places.setdefault(queue.broker_queue, queue)
        if first is not queue:
            raise InvalidSpec(
                f"TaskQueue {queue.meta.name}: spec.broker.prefix: TaskQueue {first.meta.name} has the tasks of queue "
                f"{queue.broker_queue} already; give one of them another prefix"
            )


def _check_owners(queues: Mapping[Key, TaskQueue], topics: Mapping[Key, Topic]) -> None:
    for topic in topics.values():
        if _owner(topic) not in queues:
            known = ", ".join(name for _, name in queues)
            raise InvalidSpec(
                f"Topic {topic.meta.name}: spec.queueRef.name: no TaskQueue {topic.spec.queue_ref.name} here;"
                f" there is {known}"
            )


def _owner(topic: Topic) -> Key:
    return topic.meta.namespace, topic.spec.queue_ref.name
