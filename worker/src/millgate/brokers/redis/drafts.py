"""Messages → the arguments of the scripts, and the checks that come before. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from millgate.brokers.base import MAX_BATCH
from millgate.errors import InvalidInput
from millgate.message import Group, Message
from millgate.rules import check_whole

_OPTIONAL: Final = (
    "key",
    "delay",
    "at",
    "expires_in",
    "expires_at",
    "unique",
    "unique_for",
    "result_ttl",
    "group",
)
_FLOATS: Final = frozenset({"delay", "at", "expires_in", "expires_at", "unique_for", "result_ttl"})


def runs(messages: Sequence[Message]) -> list[Any]:
    """Messages in order: neighbours of one topic and priority that set nothing else travel as one run.
    Raises InvalidInput, InvalidMessage."""
    if len(messages) > MAX_BATCH:
        raise InvalidInput(f"{len(messages)} messages in one call; publish at most {MAX_BATCH}")
    arguments: list[Any] = []
    head: tuple[str, int] | None = None
    start = 0
    for message in messages:
        check_whole(message)
        if _plain(message):
            if head != (message.topic, message.priority):
                head, start = (message.topic, message.priority), len(arguments)
                arguments += ["P", message.topic, message.priority, 0]
            arguments[start + 3] += 1
            arguments += [message.id, message.record()]
        else:
            head = None
            arguments += ["X", *draft(message)]
    return arguments


def draft(message: Message) -> tuple[bytes, bytes]:
    """One message: what the scripts read, and the record that they do not."""
    fields: list[Any] = [message.id, message.topic, message.priority]
    for name in _OPTIONAL:
        value = getattr(message, name)
        if value is None:
            fields.append(False)
        else:
            fields.append(max(float(value), 0.0) if name in _FLOATS else value)
    return bytes(msgpack.packb(fields, use_bin_type=False)), message.record()


def drafts(messages: Sequence[Message]) -> list[Any]:
    """How many, and each."""
    return [len(messages), *(part for message in messages for part in draft(message))]


def chained(messages: Sequence[Message]) -> list[Any]:
    """The topics of all later steps: how many, and which."""
    topics = list({step.topic for message in messages for step in message.chain})
    return [len(topics), *topics]


def gathering(group: Group, messages: Sequence[Message], real: Mapping[str, str]) -> bytes:
    """A group as the scripts read it: id, members, require_all, what to watch for whom, what each id was taken for.

    `real` maps a message's id to the one that it duplicates, or to itself.
    """
    members = [real.get(member, member) for member in group.members]
    watched: list[str] = []
    waiting: list[str] = []
    wanted = set(members)
    for message in messages:
        ids = [real[message.id], *(step.id for step in message.chain)]
        for position, member in enumerate(ids):
            if member in wanted:
                watched += ids[: position + 1]
                waiting += [member] * (position + 1)
    whole = [group.id, members, "1" if group.require_all else "0", [watched, waiting], real]
    return bytes(msgpack.packb(whole, use_bin_type=False))


def _plain(message: Message) -> bool:
    return (
        message.key is None
        and message.unique is None
        and message.delay is None
        and message.at is None
        and message.group is None
        and message.result_ttl is None
        and message.expires_in is None
        and message.expires_at is None
    )
