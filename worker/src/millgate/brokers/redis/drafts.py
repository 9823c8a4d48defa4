"""Messages → the arguments of the scripts, and the checks that come before. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgpack

from millgate.brokers.base import MAX_BATCH
from millgate.errors import InvalidInput
from millgate.frozen import dataclass
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
#: What messages cost the server, in its microseconds, about: a plain one, what fields add, each byte, each other topic,
#: and one that is unlike the one before.
_PLAIN: Final = 3.0
_MORE: Final = {
    "key": 1.0,
    "delay": 1.0,
    "at": 1.0,
    "expires_in": 2.0,
    "expires_at": 2.0,
    "unique": 2.0,
    "unique_for": 2.0,
    "result_ttl": 0.4,
    "group": 0.4,
}
_BYTE: Final = 0.004
_TOPIC: Final = 30.0
_RUN: Final = 1.5
_NONE: Final[set[str]] = set()
#: What one call may cost, and each of those that carry out what costs more.
MOST: Final = 5000.0
_EACH: Final = 2000.0
#: What each member of a group costs beside.
MEMBER: Final = 1.5


@dataclass(frozen=True, slots=True)
class Part:
    """Some messages of a batch as their script reads them: the place of the first, the runs, what they weigh."""

    start: int
    runs: list[Any]
    weight: float


class _Filling:
    """A part that is being filled."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.runs: list[Any] = []
        self.weight = 0.0
        self.topics: set[str] = set()
        self._run: tuple[str, int, str] | None = None
        self._head = 0

    def called(self, message: Message) -> set[str]:
        """The topics that a message is the first to name."""
        return {message.topic, *(step.topic for step in message.chain)} - self.topics

    def add(self, message: Message, letters: str, values: Sequence[Any]) -> None:
        """Let a message follow, with the values of the fields that it sets, its record last."""
        if self._run != (message.topic, message.priority, letters):
            self.weight += _RUN
            self._run, self._head = (message.topic, message.priority, letters), len(self.runs)
            self.runs += [message.topic, message.priority, 0, letters]
        self.runs[self._head + 2] += 1
        self.runs += [message.id, *values]

    def part(self) -> Part:
        """What it has become."""
        return Part(self.start, self.runs, self.weight)


def parts(messages: Sequence[Message]) -> list[Part]:
    """Messages in order, in parts that one call each can store: neighbours of one topic and priority that set the same
    fields travel as one run. Raises InvalidInput, InvalidMessage."""
    if len(messages) > MAX_BATCH:
        raise InvalidInput(f"{len(messages)} messages in one call; publish at most {MAX_BATCH}")
    done: list[Part] = []
    filling = _Filling(0)
    values: Sequence[Any] = (None,) * len(_OPTIONAL)
    letters, fields, plain = _set(values)
    for place, message in enumerate(messages):
        check_whole(message)
        former, values = values, _READ_OPTIONAL(message)
        if values != former:  # neighbours are often alike
            letters, fields, plain = _set(values)
        record, called = message.record(), _NONE
        if message.chain or message.topic not in filling.topics:
            called = filling.called(message)
        weight = plain + len(record) * _BYTE + len(called) * _TOPIC
        if filling.weight + weight > _EACH and filling.runs:
            done.append(filling.part())
            filling = _Filling(place)
        filling.weight += weight
        if called:
            filling.topics |= called
        filling.add(message, letters, (*fields, record))
    return [*done, filling.part()]


def single(message: Message) -> list[Any]:
    """One message, as a run. Raises InvalidMessage."""
    check_whole(message)
    letters, fields, _ = _set(_READ_OPTIONAL(message))
    return [message.topic, message.priority, 1, letters, message.id, *fields, message.record()]


def staged(part: Part, messages: Sequence[Message]) -> list[Any]:
    """A part as it is laid aside, behind the place of its first message; then the topics that its chains name, and of
    its own the bytes of their largest record with that message's id. `messages` are those of the part."""
    largest: dict[str, tuple[int, str]] = {}
    for message in messages:
        size = len(message.record())
        if size > largest.get(message.topic, (-1, ""))[0]:
            largest[message.topic] = (size, message.id)
    whole = msgpack.packb([part.start + 1, *part.runs], use_bin_type=False)
    sizes = (value for topic, (size, name) in largest.items() for value in (topic, size, name))
    return [whole, *chained(messages), *sizes]


def wanted(messages: Sequence[Message]) -> list[Any]:
    """How many, their ids, and of those that want a unique text their places, from 1 on, and the texts."""
    texts = [
        value
        for place, message in enumerate(messages, 1)
        if message.unique is not None
        for value in (place, message.unique)
    ]
    return [len(messages), *(message.id for message in messages), *texts]


def _set(values: Sequence[Any]) -> tuple[str, Sequence[Any], float]:
    """The letters of the optional fields that are set, their values, and what such a message weighs."""
    letters, fields, weight = "", [], _PLAIN
    for (name, letter), value in zip(_OPTIONAL.items(), values, strict=True):
        if value is not None:
            letters += letter
            fields.append(repr(max(float(value), 0.0)) if name in _FLOATS else value)
            weight += _MORE.get(name, 0.0)
    return letters, fields, weight


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
