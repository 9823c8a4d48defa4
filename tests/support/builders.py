"""Values for tests: every field has a default, every field can be set."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

from millgate.fleet import WorkerInfo, WorkerRef
from millgate.ids import new_id, new_incarnation
from millgate.message import Message
from millgate.queues import TopicPolicy

_numbers = itertools.count(1)


def a_message(**fields: Any) -> Message:
    """A message with an id as apps make them, for topic `default`."""
    base = Message(id=new_id(time.time()), topic="default", task="work", body=b"[[],{}]")
    return replace(base, **fields)


def some_messages(count: int, **fields: Any) -> list[Message]:
    """That many messages."""
    return [a_message(**fields) for _ in range(count)]


def a_topic(name: str = "default", **fields: Any) -> TopicPolicy:
    """A topic's policy."""
    return TopicPolicy(name=name, **fields)


def a_worker(name: str | None = None) -> WorkerRef:
    """A worker with an incarnation of its own."""
    return WorkerRef(name or f"w{next(_numbers)}", new_incarnation())


def an_info(**fields: Any) -> WorkerInfo:
    """What a worker says of itself."""
    return WorkerInfo(**fields)
