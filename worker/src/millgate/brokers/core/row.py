"""One accepted message, where it is, and what holds it there while it runs and when it was given up. Plain data."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from millgate.brokers.core.worker import Worker
from millgate.message import DEFAULT_PRIORITY, Message
from millgate.outcome import Failure

if TYPE_CHECKING:  # a row points back to what it lies in; at run time imports go one way only
    from millgate.brokers.core.admit import Gate
    from millgate.brokers.core.topic import Topic

#: Where a row is. Exactly one holds for every accepted message that has not ended.
LANE: Final = 0  # may start as far as time and its key are concerned
PARKED: Final = 1  # its key is busy
DELAYED: Final = 2
LEASED: Final = 3
GONE: Final = 4  # ended; whatever still points to it skips it
TAKEN: Final = 5  # popped from its lane, on the way to a worker: never seen between two verbs

_BAND: Final = 1 << 52  # numbers within one priority: more messages than any queue will see


class Row:
    """A message with its counts and its place.

    `rank` orders rows within a topic: message priority first, then publication. `ready` is when it entered its
    lane. `holds` says that it occupies a slot of its key.
    """

    __slots__ = (
        "attempt",
        "cancelled",
        "dated",
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
        self.dated = False  # and this one expires at such a time
        self.gate: Gate | None = None
        self.span: Span | None = None
        self.worker: Worker | None = None
        self.token = ""


class Span:
    """Leases of one length, the first to lapse first: time only goes forward, so renewed ones go to the end."""

    __slots__ = ("length", "rows")

    def __init__(self, length: float) -> None:
        self.length = length
        self.rows: OrderedDict[str, Row] = OrderedDict()

    def first(self) -> Row | None:
        """The one that lapses first."""
        return next(iter(self.rows.values()), None)


class Dead:
    """A row that was given up: why, when, and who held it last."""

    __slots__ = ("died", "no", "reason", "row", "worker")

    def __init__(self, row: Row, reason: str, died: float, worker: str) -> None:
        self.row = row
        self.reason = reason
        self.died = died
        self.worker = worker
        self.no = 0


def rank(priority: int, seq: int) -> int:
    """The place in a topic's order: a smaller one runs first."""
    return (9 - priority) * _BAND + seq


def seq_of(row: Row) -> int:
    """The number that a row got when it was published."""
    return row.rank % _BAND


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
