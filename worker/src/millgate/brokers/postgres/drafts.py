"""Messages → the columns of the server's functions, and the checks that come before. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from millgate.brokers.base import MAX_BATCH
from millgate.brokers.postgres.arrays import (
    Bigints,
    Blobs,
    Column,
    Floats,
    Ints,
    Smallints,
    Texts,
    column,
)
from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.message import Group, Message
from millgate.rules import check_whole

#: The columns that most messages leave empty, in the order of the functions' parameters.
_OPTIONAL: Final[tuple[tuple[str, type[Column]], ...]] = (
    ("key", Texts),
    ("delay", Floats),
    ("at", Floats),
    ("expires_in", Floats),
    ("expires_at", Floats),
    ("unique", Texts),
    ("unique_for", Floats),
    ("result_ttl", Floats),
    ("group", Texts),
)


#: Parameters of the short way in: the call's number and what `plain` answers.
PLAIN: Final = 10
_INT: Final = struct.Struct(">i").pack
_BIGINT: Final = struct.Struct(">q").pack
_FLOAT: Final = struct.Struct(">d").pack

_READ_OPTIONAL: Final = tuple((attrgetter(name), kind) for name, kind in _OPTIONAL)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one publish sends. `places` are the positions of the messages that are sent: an id that comes twice in one
    call is sent once."""

    messages: Sequence[Message]
    places: Sequence[int]
    columns: tuple[Any, ...]


def batch(messages: Sequence[Message]) -> Batch:
    """The batch of a publish. Raises InvalidInput, InvalidMessage."""
    if len(messages) > MAX_BATCH:
        raise InvalidInput(f"{len(messages)} messages in one call; publish at most {MAX_BATCH}")
    first: dict[str, int] = {}
    for place, message in enumerate(messages):
        check_whole(message)
        first.setdefault(message.id, place)
    places = list(first.values())
    sent = list(messages) if len(places) == len(messages) else [messages[p] for p in places]
    names = {topic: n for n, topic in enumerate(dict.fromkeys(m.topic for m in sent), 1)}
    columns = (
        Texts(list(names)),
        Ints([names[message.topic] for message in sent]),
        Texts([message.id for message in sent]),
        Smallints([message.priority for message in sent]),
        Blobs([message.record() for message in sent]),
        *_optional(sent),
    )
    return Batch(messages, places, columns)


def plain(message: Message) -> tuple[bytes | None, ...] | None:
    """The values of one message that waits for nothing, for the short way in, in PostgreSQL's binary form; None: it
    takes the long one. Raises InvalidMessage."""
    check_whole(message)
    if message.delay is not None or message.at is not None or message.unique is not None:
        return None
    if message.chain:
        return None
    return (
        message.topic.encode(),
        message.id.encode(),
        _INT(message.priority),
        message.record(),
        None if message.key is None else message.key.encode(),
        None if message.expires_in is None else _FLOAT(message.expires_in),
        None if message.expires_at is None else _FLOAT(message.expires_at),
        None if message.result_ttl is None else _FLOAT(message.result_ttl),
        None if message.group is None else message.group.encode(),
    )


def number(value: int) -> bytes:
    """A bigint in PostgreSQL's binary form."""
    return _BIGINT(value)


def chained(messages: Sequence[Message]) -> Texts:
    """The topics of all later steps."""
    return Texts(list({step.topic for message in messages for step in message.chain}))


def following(messages: Sequence[Message], parents: Sequence[int]) -> tuple[Any, ...]:
    """The columns of messages that settlements publish."""
    return (
        Bigints(parents),
        Texts([message.topic for message in messages]),
        Texts([message.id for message in messages]),
        Smallints([message.priority for message in messages]),
        Blobs([message.record() for message in messages]),
        *_optional(messages),
    )


def single(message: Message) -> tuple[Any, ...]:
    """One message's values, topic first, in the order of a draft."""
    optional = (getattr(message, name) for name, _ in _OPTIONAL)
    return (message.topic, message.id, message.priority, message.record(), *optional)


def watches(
    group: Group, messages: Sequence[Message], real: Mapping[str, str]
) -> Iterator[tuple[str, str, int, int]]:
    """What to watch for a group: the id of each member and of the steps before it, the member, the member's place, the
    number of the step.

    `real` maps a message's id to the one that it duplicates, or to itself.
    """
    places = {real.get(member, member): place for place, member in enumerate(group.members, 1)}
    for message in messages:
        ids = list(dict.fromkeys([real[message.id], *(step.id for step in message.chain)]))
        for position, member in enumerate(ids):
            if member in places:
                for step, watched in enumerate(ids[: position + 1], 1):
                    yield watched, member, places[member], step


def _optional(messages: Sequence[Message]) -> tuple[Column | None, ...]:
    return tuple(column(kind, list(map(read, messages))) for read, kind in _READ_OPTIONAL)
