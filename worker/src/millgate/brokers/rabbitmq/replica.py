"""A queue's state as far as its streams have been read: what whoever takes it over begins with."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from logging import getLogger
from typing import Final

from millgate.brokers.rabbitmq import records
from millgate.brokers.rabbitmq.records import NO_RETENTION, TAKES, Entry, Head, Kind, Reader
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served import frames
from millgate.brokers.served.engine import Engine
from millgate.errors import NotDecodable

#: Puts a mark at the end of a stream and answers it, so that a reader knows when it has read all there was.
Mark = Callable[[str], Entry]

_AHEAD: Final = 6  # parts of a snapshot, each of some MiB, that are under way

log = getLogger("millgate.brokers.rabbitmq")


class Replica:
    """An engine, and where its reading stands: all before that place is in the engine."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.head = Head()
        self.whole = False  # whether nothing that was stored is missing before that place
        self.loaded = 0  # bytes of the snapshot that it began with
        self.added = 0  # bytes that were read of journals since
        self.journal: str | None = None  # the place: in this journal,
        self.reader = Reader()
        self.offset: int | None = None  # at the last entry that counted; None: its beginning
        self._snapshot: str | None = None  # in the engine, with nothing added yet
        #: The term in which the engine has gone on by itself, if it has. Time that passes there leaves no record, so
        #: what a later owner did was perhaps done to another state.
        self.led = 0
        #: What this process's own last take-overs are called.
        self.takes: deque[bytes] = deque(maxlen=TAKES)

    def load(self, streams: Streams, head: Head, mark: Mark) -> int:
        """Read what `head` names and the engine does not have; how many records the journals had. `head` has a journal.

        Raises Gone and the driver's errors: what was read by then is kept, and the next call goes on from there.
        """
        journals = head.journals
        if self.journal not in journals:
            journals = self._begin(streams, head)
        self.head = head
        self.whole = self.whole and self.journal == journals[-1]
        done = journals.index(self.journal) if self.journal is not None else 0
        count = 0
        for name in journals[done:]:
            if name != self.journal:
                self.enter(name, Reader())
            count += self.advance(streams, mark(name))
        self.whole = True
        return count

    def advance(self, streams: Streams, mark: Entry) -> int:
        """Read on in the present journal up to a mark in it; how many records. Raises Gone, also when the journal has
        lost what was read of it, or written to it, before: then nothing was added."""
        assert self.journal is not None
        name, place, term, number = self.journal, self.offset, self.reader.term, self.reader.number
        if place is not None and not streams.reaches(name, place, mark):
            raise Gone(name)
        count, there = 0, not term
        for entry, offset in streams.read(name, mark, place):
            there = there or (entry.term == term and entry.number >= number)
            if not there and entry.term > term:
                break
            count += self.take(entry, offset)
        if not there:
            raise Gone(name)
        return count

    def take(self, entry: Entry, offset: int) -> int:
        """Add one entry of the journal that is being read; how many records it completed. Raises Gone where another
        owner has followed this one: all is to be read anew."""
        if not self.reader.term and offset:
            raise NotDecodable(
                f"the beginning of {self.journal} is not there any more; {NO_RETENTION}"
            )
        data = self.reader.take(entry)
        if self.led and self.reader.term > self.led:
            self.forget()
            raise Gone(self.journal)
        if (entry.term, entry.number) == (self.reader.term, self.reader.number):
            self.offset = offset
        if data is None:
            return 0
        self.added += len(data)
        found: list[bytes] = frames.unpack(data)
        for record in found:
            self.engine.replay(record)
        return len(found)

    def enter(self, name: str, reader: Reader) -> None:
        """A journal has ended; the place is now in the next one, where `reader` begins."""
        self.journal, self.reader, self.offset, self._snapshot = name, reader, None, None

    def check(self, found: Head) -> None:
        """Forget all of this when it is no part of what `found` names, nor the other way round: the server has lost
        the end of what is here, and somebody has gone on without it. What that one accepted since is what counts.

        Likewise when another owner has followed this one."""
        known = self.head
        if known.takes and not (found.knows(known) or known.knows(found)):
            log.warning(
                "somebody has served %s without what is known here; reading all anew",
                found.journals[-1:],
            )
            self.forget()
        if self.led and found.term >= self.led and found.takes[-1] not in self.takes:
            self.forget()

    def forget(self) -> None:
        """Read all anew the next time."""
        self.whole, self.journal, self._snapshot, self.led = False, None, None, 0

    def _begin(self, streams: Streams, head: Head) -> tuple[str, ...]:
        """Begin with a snapshot; the journals that come after it."""
        fresh = self.journal is None and self._snapshot is not None
        if fresh and self._snapshot == head.snapshot:
            return head.journals  # the connection was lost since, and the engine has all of it
        self.forget()
        self.engine, self.loaded, self.added = Engine(), 0, 0
        try:
            self._take_snapshot(streams, head.snapshot)
        except Gone:
            if not head.spare:
                raise
            log.warning("%s is not complete; reading what came before it", head.snapshot)
            self._take_snapshot(streams, head.spare[0])
            return (*(name for name in head.spare[1:] if name), *head.journals)
        return head.journals

    def _take_snapshot(self, streams: Streams, name: str | None) -> None:
        if name is not None:
            log.info("reading %s", name)
            data = _snapshot(streams, name)
            with streams.kept():
                self.engine.load(data)
            self.loaded, self._snapshot = len(data), name


def newest(streams: Streams, name: str, until: Entry | int) -> tuple[Head, int]:
    """The head with the highest term (of several of one term, that of the highest number) up to an entry or an
    offset, and the offset behind it all."""
    best, number, end = Head(), 0, 0
    for entry, offset in streams.read(name, until):
        end = offset + 1
        found = head_of(entry)
        if found is not None and (found.term, entry.number) >= (best.term, number):
            best, number = found, entry.number
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
    """The state in a snapshot. Raises Gone when a part of it is not there."""
    reader = Reader()
    for entry, _ in streams.read(name, nobodys_mark(streams, name), ahead=_AHEAD):
        data = reader.take(entry)
        if data is not None:
            return data
    raise Gone(name)
