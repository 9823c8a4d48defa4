"""The journal of a queue in the server's streams: what was asked since the last snapshot, stored before anybody is
answered, and read back by whoever takes the queue over.

A journal that has outgrown the snapshot is followed by another: that one is opened at once, its snapshot written at
leisure, and what came before it is kept until the next one is complete. The head stream says which are in force.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from logging import getLogger
from typing import Final

from pika import exceptions

from millgate.brokers.rabbitmq import records
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.records import Entry, Head, Kind, Reader
from millgate.brokers.rabbitmq.replica import Replica, newest, nobodys_mark
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served import frames
from millgate.brokers.served.engine import Engine
from millgate.errors import BrokerRefused

#: A journal smaller than this is not worth a snapshot, in bytes.
SMALLEST: Final = 16 * 2**20
_SAY_AGAIN: Final = 60  # looks after the streams between two times that the head is said

log = getLogger("millgate.brokers.rabbitmq")


class Journal:
    """What one brokerd stores. It belongs to a term, and to the connection that holds the queue."""

    def __init__(self, names: Names, smallest: int = SMALLEST) -> None:
        self._names = names
        self._smallest = self._threshold = smallest
        self._streams: Streams | None = None
        self.replica = Replica()
        self._number = 0  # of the last entry of this term
        self._size = 0  # bytes in the journals that no snapshot replaces yet, as far as it is known
        self._awaited = ""  # the snapshot that the last rotation needs
        self._cut_off = False  # whether the last owner began a snapshot that it did not complete
        self.term = 0  # that was begun here last
        self._looks = 0  # after what is stored

    @property
    def head(self) -> Head:
        """What is in force."""
        return self.replica.head

    # --- taking over -----------------------------------------------------------------------------

    def take_over(self, streams: Streams) -> None:
        """Begin a term: all that is stored is in `replica` then.

        What it has already is read no second time when nobody else had the queue since. Raises BrokerRefused when
        what is stored cannot be read, SchemaTooNew, and the driver's errors.
        """
        self._streams, replica = streams, self.replica
        streams.declare(self._names.head, only_newest=True)
        found, _ = newest(streams, self._names.head, nobodys_mark(streams, self._names.head))
        # Its marks are known from those of a term of the same number, of which the head's stream has lost the head.
        self._number, self._awaited = secrets.randbits(48), ""
        replica.check(found)
        if replica.whole and found.age < replica.head.age:
            self._take_back(found)
        else:
            self._go_on(found)
        self.term = replica.led = self.head.term

    def _go_on(self, found: Head) -> None:
        self._sweep(found)
        self._say(replace(self._taken(found), left=()))
        try:
            self._read(found.term)
        except Gone as gone:
            raise BrokerRefused(
                f"the stream {gone}, which held a part of this queue, is gone: put it back from a copy, or delete"
                f" {self._names.head} too, to begin with nothing"
            ) from gone
        self._rise()

    def _rise(self) -> None:
        """Go above the terms that were found in the journal. The head's stream may have lost its end, and the journal
        not: what is written in a term that was given out before would not count."""
        reader = self.replica.reader
        if (reader.term, reader.number) > (self.head.term, self._number):
            assert self._streams is not None
            self._say(self._taken(replace(self.head, term=reader.term)))
            self.replica.advance(self._streams, self._mark(self.head.journals[-1]))

    def _take_back(self, found: Head) -> None:
        """What is stored is older than what this process has: of that nothing is to be lost, nor of its end."""
        assert self._streams is not None
        replica, head = self.replica, self.head
        self._sweep(head)
        replica.head = self._taken(head)
        with suppress(Gone):
            replica.advance(self._streams, self._mark(head.journals[-1]))
        self._restore()
        self._delete(found.names)

    def _read(self, term: int) -> None:
        """Read what is missing; the last owner's term was that."""
        assert self._streams is not None
        replica, streams, last = self.replica, self._streams, self.replica.reader.term
        if not replica.head.journals:
            replica.forget()
            replica.engine, replica.whole = Engine(), True
            self._begin()
            return
        before = replica.engine if replica.whole else None
        try:
            count = replica.load(streams, replica.head, self._mark)
        except Gone:
            if replica.whole and last == term:  # nobody has written what this process does not have
                self._restore()
                return
            replica.forget()
            count = replica.load(streams, replica.head, self._mark)
        if replica.engine is not before:
            log.info("read %d records of %s", count, self._names.prefix)
            # What a successor would have to read counts, whoever wrote it. A snapshot at once, whatever there is, or
            # after one that was cut off, could be what a process ends of again and again: for a moment it takes as much
            # memory as the state.
            self._threshold, self._size = max(self._smallest, replica.loaded), replica.added
            if self._cut_off:
                self._size = min(self._size, self._threshold - self._smallest)

    # --- storing ---------------------------------------------------------------------------------

    def append(self, records_: Sequence[bytes], *, on_disk: bool = True) -> None:  # noqa: ARG002 -- always stored
        """Store records, all or none; on return the server has confirmed them. Raises the driver's errors: then it
        is not known whether they are stored, and the next `take_over` finds out."""
        data = frames.pack(list(records_))
        try:
            self._store(data)
        except Gone:
            self._restore()
            self._store(data)
        self.replica.reader.number = self._number

    def _store(self, data: bytes) -> None:
        for entry in records.parts(data, self.head.term, self._number + 1):
            self._put(self.head.journals[-1], entry)
            self._size += len(entry.data)

    def look_after(self) -> None:
        """Store all anew when somebody has deleted a part: no later brokerd would find it, or miss it by name.

        The head is said again now and then: its stream keeps but the newest of what anybody puts into it.
        """
        assert self._streams is not None
        head = self.head
        names = [self._names.head, *head.journals, *([head.snapshot] if head.snapshot else [])]
        if not self._streams.present(*names):
            self._restore()
        self._looks += 1
        if self._looks % _SAY_AGAIN == 0:
            self._say(self.head)

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
        assert self._streams is not None
        name = self._awaited = self._names.snapshot(self.head.term, self.head.last)
        self._make(name)  # not by its writer, which may outlive this process
        return name

    def written(self, name: str, size: int | None) -> None:
        """A snapshot is complete and has that many bytes (None: it was not written): put it in force, if it is the one
        that the last rotation needs, and remove what came before what it replaces."""
        assert self._streams is not None
        wanted, self._awaited = name == self._awaited and size is not None, ""
        if size is None or not wanted:
            self._streams.delete(name)
            return
        old = self.head
        spare = (old.snapshot, *old.journals[:-1])
        left = tuple(name for name in old.spare if name)
        self._threshold = max(self._smallest, size)
        self._say(replace(old, snapshot=name, journals=old.journals[-1:], spare=spare, left=left))
        self._delete(left)

    def _restore(self) -> None:
        """Store the whole engine anew: somebody deleted what was stored."""
        assert self._streams is not None
        log.error("streams of %s were deleted; storing all of it anew", self._names.prefix)
        self._streams.declare(self._names.head, only_newest=True)
        with self._streams.kept():
            data = self.replica.engine.dump()
        term, number = self.head.term, self.head.last + 1
        snapshot = self._names.snapshot(term, number)
        self._make(snapshot)
        write_snapshot(self._streams, snapshot, term, data)
        left, (journal, mark) = self.head.names, self._open(number)
        head = Head(term, snapshot, (journal,), number, left=left, takes=self.head.takes)
        self._enter(head, mark)
        self._threshold, self._awaited = max(self._smallest, len(data)), ""
        self._delete(left)

    def _begin(self) -> None:
        number = self.head.last + 1
        name, mark = self._open(number)
        self._enter(replace(self.head, journals=(*self.head.journals, name), last=number), mark)

    def _open(self, number: int) -> tuple[str, Entry]:
        """Make a journal; its name and first entry."""
        name = self._names.journal(self.head.term, number)
        self._make(name)
        return name, self._mark(name)

    def _make(self, name: str) -> None:
        """Make a stream that has nothing in it. One of that name may be left of a term that no head tells of."""
        assert self._streams is not None
        self._streams.delete(name)
        self._streams.declare(name)

    def _enter(self, head: Head, mark: Entry) -> None:
        """Put a head in force, whose last journal begins with `mark`."""
        self._say(head)
        self.replica.enter(head.journals[-1], Reader(mark.term, mark.number))
        self._size = 0

    def _delete(self, names: Sequence[str]) -> None:
        assert self._streams is not None
        for name in names:
            self._streams.delete(name)

    def _sweep(self, found: Head) -> None:
        """Remove what a brokerd that was ended in between had made and no head names, or had not removed."""
        next_ = found.last + 1
        left = [self._names.journal(found.term, next_), self._names.snapshot(found.term, next_)]
        last = self._names.snapshot(found.term, found.last)
        assert self._streams is not None
        self._cut_off = last not in found.names and self._streams.present(last)
        left.append(last)
        self._delete([name for name in (*left, *found.left) if name not in found.names])

    def _mark(self, name: str) -> Entry:
        mark = Entry(Kind.MARK, self.head.term, self._number + 1)
        self._put(name, mark)
        return mark

    def _say(self, head: Head) -> None:
        """Put a head in force."""
        entry = Entry(Kind.LAST, head.term, self._number + 1, head.pack())
        try:
            self._put(self._names.head, entry)
        except Gone:
            assert self._streams is not None
            self._streams.declare(self._names.head, only_newest=True)
            self._put(self._names.head, entry)
        self.replica.head = head

    def _taken(self, head: Head) -> Head:
        """The head of whoever takes over. It may come to be stored and this process not hear of it."""
        taken = head.taken()
        self.replica.takes.append(taken.takes[-1])
        self.replica.led = self.replica.led and taken.term
        return taken

    def _put(self, name: str, entry: Entry) -> None:
        if self._streams is None:
            raise exceptions.ConnectionWrongStateError("not connected")
        self._streams.append(name, entry)
        self._number = entry.number


def write_snapshot(streams: Streams, name: str, term: int, data: bytes) -> int:
    """Store a whole state in a stream of its own, which was declared; its size. It counts once a head names it."""
    streams.append(name, Entry(Kind.MARK, term, 0))
    for entry in records.parts(data, term, 1):
        streams.append(name, entry)
    return len(data)
