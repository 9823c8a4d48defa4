"""A brokerd that waits for its turn: it reads along, so that it can go on at once where the other one ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pika import exceptions

from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.records import Entry, Head, Reader, unpack
from millgate.brokers.rabbitmq.replica import Replica, head_of, newest, nobodys_mark
from millgate.brokers.rabbitmq.streams import Gone, Streams, end

_AHEAD: Final = 50  # entries that the server sends before the first of them is taken
Take = Callable[[Entry, int], None]


class Standby:
    """Keeps a replica up to date over one connection, whose loop its caller turns."""

    def __init__(self, connection: Any, names: Names, replica: Replica) -> None:
        """Read what there is, then go on. Raises Gone when it is not there (yet, any more), and the driver's errors.

        It writes nothing but marks into journals: what is missing is for whoever serves to store.
        """
        self._connection = connection
        self._replica = replica
        self._streams = Streams(connection)
        #: What is in force once the present journal was read to this mark.
        self._next: Head | None = None
        self._mark: Entry | None = None
        self._done: list[Any] = []  # channels that nothing is wanted from any more
        #: Whether this one has lost track, and another must be made.
        self.lost = False
        try:
            offset = self._read(names.head)
            self._heads = self._consume(names.head, offset, self._said)
            self._reading = self._follow()
        except BaseException:
            self._streams.close()
            raise

    def step(self, seconds: float) -> None:
        """Read along for a while."""
        self._connection.sleep(seconds)
        while self._done:  # not within their own callbacks
            end(self._done.pop())

    def close(self) -> None:
        """Read no more."""
        self.lost = True
        self._done += [self._heads, self._reading, self._streams.channel]
        self.step(0)

    def _read(self, name: str) -> int:
        """Read all there is so far; where the head's stream, which has that name, goes on."""
        streams, replica, term = self._streams, self._replica, self._replica.reader.term
        last = streams.last(name)
        head, offset = newest(streams, name, last) if last is not None else (Head(), 0)
        replica.check(head)
        if not head.journals or (replica.whole and head.age < replica.head.age):
            raise Gone(name)
        try:
            replica.load(streams, head, partial(nobodys_mark, streams))
        except Gone:
            if not (replica.whole and term == head.term):  # else nobody knows more than this one
                replica.forget()
            raise
        return offset

    def _follow(self) -> Any:
        name, offset = self._replica.head.journals[-1], self._replica.offset
        return self._consume(name, "first" if offset is None else offset, self._came)

    def _consume(self, name: str, offset: int | str, take: Take) -> Any:
        """The channel by which a stream comes. Raises Gone."""
        channel = self._connection.channel()

        def on_message(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if self.lost or channel in self._done:
                return
            channel.basic_ack(method.delivery_tag)
            entry = unpack(body)
            if entry is not None:
                take(entry, properties.headers["x-stream-offset"])

        channel.basic_qos(prefetch_count=_AHEAD)
        channel.add_on_cancel_callback(lambda _method: self._removed(channel))
        try:
            channel.basic_consume(name, on_message, arguments={"x-stream-offset": offset})
        except exceptions.ChannelClosedByBroker as error:
            if refusals.absent(error):
                raise Gone(name) from error
            raise
        return channel

    def _said(self, entry: Entry, _offset: int) -> None:
        """Something is new in the head's stream."""
        head, present = head_of(entry), self._replica.head
        if head is None or head.age < present.age:
            return
        if head.journals[-1:] == present.journals[-1:]:
            self._replica.head = head
            return
        self._next = head
        try:
            # All of the present journal was confirmed before the next was made: it ends before this mark.
            self._mark = nobodys_mark(self._streams, present.journals[-1])
        except Gone:
            self.lost = True

    def _came(self, entry: Entry, offset: int) -> None:
        try:
            if self._next is None or entry != self._mark:
                self._replica.take(entry, offset)
            else:
                self._switch(self._next)
        except Gone:
            self.lost = True

    def _switch(self, head: Head) -> None:
        present, self._next, self._mark = self._replica.head, None, None
        if head.journals[-2:-1] != present.journals[-1:]:
            self.lost = True  # more has begun since than the next journal
            return
        self._done.append(self._reading)
        self._replica.head = head
        self._replica.enter(head.journals[-1], Reader())
        self._reading = self._follow()

    def _removed(self, channel: Any) -> None:
        """The server has ended a consumer, since somebody removed what it read."""
        self.lost = self.lost or channel not in self._done
