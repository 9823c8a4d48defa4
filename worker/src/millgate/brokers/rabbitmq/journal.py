"""The journal of a queue in the server's streams: what was asked since the last snapshot, stored before anybody is
answered, and read back by whoever takes the queue over.

A journal that has outgrown the snapshot is followed by another: that one is opened at once, its snapshot written at
leisure, and what came before is removed only when that is complete. The head stream says which are in force.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from logging import getLogger
from typing import Final

from pika import exceptions

from millgate.brokers.rabbitmq import records
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.records import Entry, Head, Kind, Reader
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served import frames
from millgate.brokers.served.engine import Engine
from millgate.errors import BrokerRefused

#: A journal smaller than this is not worth a snapshot, in bytes.
SMALLEST: Final = 16 * 2**20

log = getLogger("millgate.brokers.rabbitmq")


class Journal:
    """What one brokerd stores. It belongs to a term, and to the connection that holds the queue."""

    def __init__(self, names: Names, smallest: int = SMALLEST) -> None:
        self._names = names
        self._smallest = self._threshold = smallest
        self._streams: Streams | None = None
        self._engine = Engine()
        self.head = Head()
        self._number = 0  # of the last entry of this term
        self._size = 0  # bytes in the present journal
        self._applied = Reader()  # what of the present journal is in the engine
        self._awaited = ""  # the snapshot that the last rotation needs
        self._whole = False  # whether the engine has all that was stored at the last take-over

    # --- taking over -----------------------------------------------------------------------------

    def take_over(self, streams: Streams, engine: Engine) -> Engine:
        """Begin a term; answer the engine with all that is stored.

        That is the one given when nobody else had the queue since; otherwise a new one. Raises BrokerRefused when
        what is stored cannot be read, SchemaTooNew, and the driver's errors.
        """
        self._streams = streams
        streams.declare(self._names.head, only_newest=True)
        found = self._newest()
        mine = self._whole and found == self.head
        self._whole = mine
        self._sweep(found)
        self.head = replace(found, term=found.term + 1, last=0)
        self._number, self._awaited = 0, ""
        self._say_head()
        try:
            if not found.journals:
                self._begin()
                engine = Engine()
            elif mine:
                self._catch_up(engine)
            else:
                engine = self._load()
        except Gone as gone:
            raise BrokerRefused(
                f"the stream {gone}, which held a part of this queue, is gone: put it back from a copy, or delete"
                f" {self._names.head} too, to begin with nothing"
            ) from gone
        self._engine, self._whole = engine, True
        return engine

    def _newest(self) -> Head:
        """The head with the highest term; of several of one term, the last."""
        best = Head()
        for entry in self._to_the_end(self._names.head):
            if entry.kind is Kind.LAST and entry.term >= best.term:
                best = records.head(entry.data)
        return best

    def _load(self) -> Engine:
        engine, count = Engine(), 0
        if self.head.snapshot is not None:
            engine.load(self._snapshot(self.head.snapshot))
        for name in self.head.journals:
            self._applied = Reader()
            for record in self._records(name, self._mark(name), self._applied):
                engine.replay(record)
                count += 1
        if count:
            log.info("read %d records of %s", count, self._names.prefix)
            self._threshold = 0  # reading them took time: a snapshot is due at once
        return engine

    def _catch_up(self, engine: Engine) -> None:
        """Add what was stored without an answer: at most what was under way when the connection was lost."""
        name = self.head.journals[-1]
        for record in self._records(name, self._mark(name), self._applied):
            engine.replay(record)

    def _records(self, name: str, mark: Entry, reader: Reader) -> Iterator[bytes]:
        assert self._streams is not None
        for entry in self._streams.read(name, mark):
            data = reader.take(entry)
            if data is not None:
                yield from frames.unpack(data)

    def _snapshot(self, name: str) -> bytes:
        assert self._streams is not None
        reader = Reader()
        for entry in self._streams.read(name, None):
            data = reader.take(entry)
            if data is not None:
                self._threshold = max(self._smallest, len(data))
                return data
        raise Gone(name)

    def _to_the_end(self, name: str) -> Iterator[Entry]:
        """All entries that are in a stream now: a mark is put there and read up to."""
        assert self._streams is not None
        # Terms are above 0: this mark means nothing to anybody else. Its number tells it from others'.
        mark = Entry(Kind.MARK, 0, secrets.randbits(64))
        self._streams.append(name, mark)
        return self._streams.read(name, mark)

    # --- storing ---------------------------------------------------------------------------------

    def append(self, records_: Sequence[bytes], *, on_disk: bool = True) -> None:  # noqa: ARG002 -- always stored
        """Store records, all or none; on return the server has confirmed them. Raises the driver's errors: then it
        is not known whether they are stored, and the next `take_over` finds out."""
        data = frames.pack_state(list(records_))
        try:
            self._store(data)
        except Gone:
            self._restore()
            self._store(data)
        self._applied.number = self._number

    def _store(self, data: bytes) -> None:
        for entry in records.parts(data, self.head.term, self._number + 1):
            self._put(self.head.journals[-1], entry)
            self._size += len(entry.data)

    def forget_streams(self) -> None:
        """The connection is gone."""
        self._streams = None

    @property
    def due(self) -> bool:
        """Whether a snapshot is worth its while."""
        return self._size > self._threshold

    def rotate(self) -> str:
        """Begin the next journal; answer the name of the snapshot that it needs."""
        self._threshold += self._smallest
        self._begin()
        self._awaited = self._names.snapshot(self.head.term, self.head.last)
        return self._awaited

    def written(self, name: str, size: int) -> None:
        """A snapshot is complete and has that many bytes: remove what came before, if it is the one that the last
        rotation needs."""
        if name != self._awaited:
            return
        assert self._streams is not None
        old, self._awaited = self.head, ""
        self._threshold = max(self._smallest, size)
        self.head = replace(old, snapshot=name, journals=old.journals[-1:])
        self._say_head()
        for left in (old.snapshot, *old.journals[:-1]):
            if left is not None:
                self._streams.delete(left)

    def _restore(self) -> None:
        """Store the whole engine anew: somebody deleted what was stored."""
        assert self._streams is not None
        log.error("streams of %s were deleted; storing all of it anew", self._names.prefix)
        self._streams.declare(self._names.head, only_newest=True)
        term, number, data = self.head.term, self.head.last + 1, self._engine.dump()
        snapshot = self._names.snapshot(term, number)
        write_snapshot(self._streams, snapshot, term, data)
        old, journal = self.head, self._open(number)
        self.head = Head(term, snapshot, (journal,), number)
        self._say_head()
        self._threshold, self._awaited = max(self._smallest, len(data)), ""
        for left in (old.snapshot, *old.journals):
            if left is not None:
                self._streams.delete(left)

    def _begin(self) -> None:
        number = self.head.last + 1
        name = self._open(number)
        self.head = replace(self.head, journals=(*self.head.journals, name), last=number)
        self._say_head()

    def _open(self, number: int) -> str:
        assert self._streams is not None
        name = self._names.journal(self.head.term, number)
        self._streams.declare(name)
        mark = self._mark(name)
        self._applied = Reader(mark.term, mark.number)
        self._size = 0
        return name

    def _sweep(self, found: Head) -> None:
        """Remove what a brokerd that was ended in between had made and no head names."""
        assert self._streams is not None
        next_ = found.last + 1
        left = [self._names.journal(found.term, next_), self._names.snapshot(found.term, next_)]
        left.append(self._names.snapshot(found.term, found.last))
        for name in left:
            if name != found.snapshot:
                self._streams.delete(name)

    def _mark(self, name: str) -> Entry:
        mark = Entry(Kind.MARK, self.head.term, self._number + 1)
        self._put(name, mark)
        return mark

    def _say_head(self) -> None:
        entry = Entry(Kind.LAST, self.head.term, self._number + 1, self.head.pack())
        try:
            self._put(self._names.head, entry)
        except Gone:
            assert self._streams is not None
            self._streams.declare(self._names.head, only_newest=True)
            self._put(self._names.head, entry)

    def _put(self, name: str, entry: Entry) -> None:
        if self._streams is None:
            raise exceptions.ConnectionWrongStateError("not connected")
        self._streams.append(name, entry)
        self._number = entry.number


def write_snapshot(streams: Streams, name: str, term: int, data: bytes) -> int:
    """Store a whole state in a stream of its own; its size. It counts once a head names it."""
    streams.declare(name)
    streams.append(name, Entry(Kind.MARK, term, 0))
    for entry in records.parts(data, term, 1):
        streams.append(name, entry)
    return len(data)
