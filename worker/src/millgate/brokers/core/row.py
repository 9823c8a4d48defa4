"""One accepted message and where it is; the only mutable thing in a queue that has an id of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millgate.message import DEFAULT_PRIORITY, Message
from millgate.outcome import Failure

if TYPE_CHECKING:
    from millgate.brokers.core.admit import Gate
    from millgate.brokers.core.lease import Span
    from millgate.brokers.core.registry import Worker
    from millgate.brokers.core.topic import Topic

#: Where a row is. Exactly one holds for every accepted message that has not ended.
LANE: Final = 0  # may start as far as time and its key are concerned
PARKED: Final = 1  # its key is busy
DELAYED: Final = 2
LEASED: Final = 3
GONE: Final = 4  # ended; whatever still points to it skips it

_SPAN: Final = 1 << 52  # more messages than any queue will see


class Row:
    """A message with its counts and its place.

    `rank` orders rows within a topic: message priority first, then publication. `ready` is when it entered its
    lane. `holds` says that it occupies a slot of its key.
    """

    __slots__ = (
        "attempt",
        "cancelled",
        "due",
        "expires",
        "failure",
        "failures",
        "fresh",
        "gate",
        "group",
        "holds",
        "id",
        "interruptions",
        "key",
        "losses",
        "priority",
        "progress",
        "rank",
        "ready",
        "record",
        "result_ttl",
        "span",
        "timed",
        "token",
        "topic",
        "unique",
        "until",
        "where",
        "worker",
    )

    def __init__(self, message: Message, topic: Topic, record: bytes, seq: int) -> None:
        self.id = message.id
        self.topic = topic
        self.record = record
        self.priority = message.priority
        self.rank = rank(message.priority, seq)
        self.key = message.key
        self.unique = message.unique
        self.result_ttl = message.result_ttl
        self.group = message.group
        self.expires: float | None = None
        self.attempt = self.failures = self.losses = self.interruptions = 0
        self.failure: Failure | None = None
        self.progress: bytes | None = None
        self.where = GONE
        self.ready = self.due = self.until = 0.0
        self.fresh = self.holds = self.cancelled = False
        self.timed = message.at is not None  # due at a time that somebody named
        self.gate: Gate | None = None
        self.span: Span | None = None
        self.worker: Worker | None = None
        self.token = ""


def rank(priority: int, seq: int) -> int:
    """The place in a topic's order: a smaller one runs first."""
    return (9 - priority) * _SPAN + seq


def seq_of(row: Row) -> int:
    """The number that a row got when it was published."""
    return row.rank % _SPAN


def message_of(row: Row) -> Message:
    """The row as a message without its record's half, which is read apart."""
    return Message(
        id=row.id,
        topic=row.topic.name,
        task="",
        body=b"",
        priority=row.priority if row.priority is not None else DEFAULT_PRIORITY,
        key=row.key,
        unique=row.unique,
        result_ttl=row.result_ttl,
        group=row.group,
    )
