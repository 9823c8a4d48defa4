"""A queue's state as far as its streams have been read: what whoever takes it over begins with."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from logging import getLogger

from millgate.brokers.rabbitmq import records
from millgate.brokers.rabbitmq.records import Entry, Head, Kind, Reader
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served import frames
from millgate.brokers.served.engine import Engine

#: Puts a mark at the end of a stream and answers it, so that a reader knows when it has read all there was.
Mark = Callable[[str], Entry]

log = getLogger("millgate.brokers.rabbitmq")


class Replica:
    """An engine, and where its reading stands."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.head = Head()
        self.whole = False  # whether nothing that was stored is missing before the place where the reading stands
        self.loaded = 0  # bytes of the snapshot that it began with
        self.reader = Reader()  # of the last journal
        self.offset: int | None = (
            None  # in the last journal, of what is read next; None: its beginning
        )

    def load(self, streams: Streams, head: Head, mark: Mark) -> int:
        """Read all that `head` names into a new engine; how many records the journals had. Raises Gone."""
        self.engine, self.head, self.whole, self.loaded = Engine(), head, False, 0
        if head.snapshot is not None:
            data = _snapshot(streams, head.snapshot)
            self.engine.load(data)
            self.loaded = len(data)
        count = 0
        for name in head.journals:
            self.begin(head)
            count += self.advance(streams, mark(name), name)
        self.whole = True
        return count

    def advance(self, streams: Streams, mark: Entry, name: str | None = None) -> int:
        """Read on in the last journal, or that of the name, up to a mark in it; how many records. Raises Gone."""
        name = name or self.head.journals[-1]
        return sum(
            self.take(entry, offset) for entry, offset in streams.read(name, mark, self.offset)
        )

    def take(self, entry: Entry, offset: int) -> int:
        """Add one entry of the journal that is being read; how many records it completed."""
        self.offset = offset + 1
        data = self.reader.take(entry)
        if data is None:
            return 0
        found: list[bytes] = frames.unpack(data)
        for record in found:
            self.engine.replay(record)
        return len(found)

    def begin(self, head: Head) -> None:
        """A journal has ended, and what is read from now on is the beginning of the next."""
        self.head, self.reader, self.offset = head, Reader(), None


def newest(streams: Streams, name: str) -> tuple[Head, int]:
    """The head with the highest term (of several of one term, the last), and the offset behind it all."""
    best, end = Head(), 0
    for entry, offset in streams.read(name, nobodys_mark(streams, name)):
        end = offset + 1
        found = head_of(entry)
        if found is not None and found.term >= best.term:
            best = found
    return best, end


def head_of(entry: Entry) -> Head | None:
    """The head that an entry of the head's stream says; None: it is a mark."""
    return records.head(entry.data) if entry.kind is Kind.LAST else None


def nobodys_mark(streams: Streams, name: str) -> Entry:
    """Put a mark that means nothing to anybody else: terms are above 0. Its number tells it from others'."""
    mark = Entry(Kind.MARK, 0, secrets.randbits(64))
    streams.append(name, mark)
    return mark


def _snapshot(streams: Streams, name: str) -> bytes:
    reader = Reader()
    for entry, _ in streams.read(name, None):
        data = reader.take(entry)
        if data is not None:
            return data
    raise Gone(name)
