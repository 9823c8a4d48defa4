"""Messages → the arguments of the scripts, and the checks that come before. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgpack

from millgate.brokers.base import MAX_BATCH
from millgate.errors import InvalidInput
from millgate.message import Group, Message
from millgate.rules import check_whole

#: In the order of the scripts' drafts, with the letters of their runs.
_OPTIONAL: Final = {
    "key": "K",
    "delay": "D",
    "at": "A",
    "expires_in": "E",
    "expires_at": "X",
    "unique": "U",
    "unique_for": "F",
    "result_ttl": "T",
    "group": "G",
}
_FLOATS: Final = frozenset({"delay", "at", "expires_in", "expires_at", "unique_for", "result_ttl"})
_READ_OPTIONAL: Final = attrgetter(*_OPTIONAL)


def runs(messages: Sequence[Message]) -> list[Any]:
    """Messages in order: neighbours of one topic and priority that set the same fields travel as one run.
    Raises InvalidInput, InvalidMessage."""
    if len(messages) > MAX_BATCH:
        raise InvalidInput(f"{len(messages)} messages in one call; publish at most {MAX_BATCH}")
    arguments: list[Any] = []
    head: tuple[str, int, str] | None = None
    start = 0
    values: Sequence[Any] = (None,) * len(_OPTIONAL)
    letters, fields = _set(values)
    for message in messages:
        check_whole(message)
        former, values = values, _READ_OPTIONAL(message)
        if values != former:  # neighbours are often alike
            letters, fields = _set(values)
        if head != (message.topic, message.priority, letters):
            head, start = (message.topic, message.priority, letters), len(arguments)
            arguments += [message.topic, message.priority, 0, letters]
        arguments[start + 2] += 1
        arguments += [message.id, *fields, message.record()]
    return arguments


def _set(values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The letters of the optional fields that are set, and their values."""
    letters, fields = "", []
    for (name, letter), value in zip(_OPTIONAL.items(), values, strict=True):
        if value is not None:
            letters += letter
            fields.append(repr(max(float(value), 0.0)) if name in _FLOATS else value)
    return letters, fields


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
    """A group as the scripts read it: id, members, require_all, what to watch for whom, the ways to members that are
    later steps of a chain, what ids were taken for that are not themselves.

    `real` maps a message's id to the one that it duplicates, or to itself.
    """
    members = [real.get(member, member) for member in group.members]
    watched: list[str] = []
    waiting: list[str] = []
    ways: dict[str, list[str]] = {}
    wanted = set(members)
    for message in messages:
        ids = list(dict.fromkeys([real[message.id], *(step.id for step in message.chain)]))
        for position, member in enumerate(ids):
            if member in wanted:
                watched += ids[: position + 1]
                waiting += [member] * (position + 1)
                if position:
                    ways.setdefault(member, ids[: position + 1])
    others = {name: other for name, other in real.items() if other != name}
    watches = [watched, waiting, ways]
    whole = [group.id, members, "1" if group.require_all else "0", watches, others]
    return bytes(msgpack.packb(whole, use_bin_type=False))
