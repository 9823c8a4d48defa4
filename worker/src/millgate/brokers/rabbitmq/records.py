"""What the messages of a queue's streams say, and which of them count. Pure.

A stream is a log that several processes could write to: the present brokerd, and one that was thought dead. Whoever
takes a queue over has a term, a number above all before it, and begins by putting a mark with its term into the log.
A message counts only when its term is that of the last mark before it, so what an older brokerd writes after it was
followed is void, whatever it believes.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final, Self

from millgate.brokers.rabbitmq.pieces import cut
from millgate.brokers.served import frames
from millgate.errors import NotDecodable, SchemaTooNew
from millgate.frozen import dataclass

#: Format of all that is stored; a program refuses one that is newer than its own.
FORMAT: Final = 1
#: What must be so for a stream to keep its beginning.
NO_RETENTION: Final = (
    "a policy of the server that limits the age or the size of streams must not apply to these"
)
_MAGIC: Final = b"MG"
TAKES: Final = 16  # take-overs that a head remembers
_HEAD: Final = struct.Struct(">2sBBQQ")  # what it is, format, kind, term, number


class Kind(IntEnum):
    """What a message of a stream is."""

    MARK = 0  # a term begins
    MORE = 1  # a part of something larger, not the last
    LAST = 2  # the last part, or all of it


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `number` grows by one with each message of a term, which begins anywhere."""

    kind: Kind
    term: int
    number: int
    data: bytes = b""

    def pack(self) -> bytes:
        """As bytes."""
        return _HEAD.pack(_MAGIC, FORMAT, self.kind, self.term, self.number) + self.data


def unpack(body: bytes) -> Entry | None:
    """The entry that `pack` wrote; None: somebody else's message. Raises SchemaTooNew."""
    if len(body) < _HEAD.size:
        return None
    magic, format_, kind, term, number = _HEAD.unpack_from(body)
    if magic != _MAGIC or (format_ <= FORMAT and kind > Kind.LAST):
        return None
    if format_ > FORMAT:
        raise SchemaTooNew(
            f"this queue is stored in format {format_}, this program knows {FORMAT}; run the newer Millgate"
            " that wrote it"
        )
    return Entry(Kind(kind), term, number, body[_HEAD.size :])


def parts(data: bytes, term: int, number: int) -> list[Entry]:
    """The entries that carry `data`, the first of them with that number."""
    return [
        Entry(Kind.MORE if more else Kind.LAST, term, number + at, piece)
        for at, (piece, more) in enumerate(cut(data))
    ]


class Reader:
    """Follows one stream from entry to entry and puts together what counts."""

    def __init__(self, term: int = 0, number: int = 0) -> None:
        """Begin behind the entry of that term and number; (0, 0): at the beginning."""
        self.term = term
        self.number = number
        self._parts: list[bytes] = []

    def take(self, entry: Entry) -> bytes | None:
        """What this entry completes; None: nothing, or it does not count.

        Raises NotDecodable when the beginning is not there any more.
        """
        if entry.kind is Kind.MARK:
            if entry.term > self.term:
                self.term, self.number, self._parts = entry.term, entry.number, []
            return None
        if not self.term:
            raise NotDecodable(f"a stream begins in the middle; {NO_RETENTION}")
        if entry.term != self.term or entry.number <= self.number:
            return None
        self.number = entry.number
        self._parts.append(entry.data)
        if entry.kind is Kind.MORE:
            return None
        data, self._parts = b"".join(self._parts), []
        return data


@dataclass(frozen=True, slots=True)
class Head:
    """What is in force: the state in `snapshot` (None: nothing), then what `journals` add, in order."""

    term: int = 0
    snapshot: str | None = None
    journals: tuple[str, ...] = ()
    last: int = 0  # the number that this term has used last in a name
    #: The snapshot and the journals before them, from which the same state comes: they go with the next snapshot only,
    #: since a server that loses its power may have deleted what it was told to, and not have stored what it confirmed.
    spare: tuple[str | None, ...] = ()
    left: tuple[str, ...] = ()  # streams that are of no use any more
    #: The last take-overs, the present one last, each by a name that nobody else would give it. Terms do not tell: a
    #: server that has lost its last ones gives the same number twice.
    takes: tuple[bytes, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The streams that are of use."""
        return tuple(name for name in (self.snapshot, *self.journals, *self.spare) if name)

    @property
    def age(self) -> tuple[int, int]:
        """Grows with each term, and within it with each journal."""
        return self.term, self.last

    def taken(self) -> Self:
        """The head of whoever takes over what this one names."""
        takes = (*self.takes[1 - TAKES :], secrets.token_bytes(8))
        return replace(self, term=self.term + 1, last=0, takes=takes)

    def knows(self, other: Head) -> bool:
        """Whether all that was stored up to `other` is in what this one names, or was as it was put in force."""
        return not other.takes or other.takes[-1] in self.takes

    def pack(self) -> bytes:
        """As bytes."""
        names = [self.snapshot, self.journals, self.last, self.spare, self.left]
        return frames.pack([self.term, *names, self.takes])


def head(data: bytes) -> Head:
    """What `Head.pack` wrote. Raises NotDecodable."""
    value: Any = frames.unpack(data)
    if not isinstance(value, list) or len(value) != 7:
        raise NotDecodable("not the head of a Millgate queue")
    term, snapshot, journals, last, *names = value
    return Head(term, snapshot, tuple(journals), last, *map(tuple, names))
