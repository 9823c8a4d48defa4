"""Streams of the server as logs: declared, appended to with confirmation, read to an end that is known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pika
from pika import exceptions

from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.express import Express
from millgate.brokers.rabbitmq.posting import Posting
from millgate.brokers.rabbitmq.pump import Pump
from millgate.brokers.rabbitmq.records import Entry, unpack
from millgate.brokers.rabbitmq.vigil import Vigil

_SEGMENT: Final = 64 * 2**20
_SMALL_SEGMENT: Final = 500_000
_SMALL: Final = 4_000_000  # bytes of a stream of which only the newest entries matter
_AHEAD: Final = 100  # entries that the server sends before the first of them is taken
#: Seconds without an entry that must be there: this connection brings it no more.
_SILENCE: Final = 15.0
_GLANCE: Final = 1.0  # seconds in which a stream that has entries shows one
_SIGN: Final = 0.2  # seconds between two looks at a connection that nobody works with
_PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)
#: What a message is called that only asks whether somebody has the queue.
PROBE: Final = "millgate-probe"
_PROBE: Final = pika.BasicProperties(type=PROBE, expiration="1000")


class Gone(exceptions.AMQPError):  # type: ignore[misc]
    """The stream is not there (any more). Where nobody can tell what to do about it, connecting anew does."""


class Silent(exceptions.AMQPConnectionError):  # type: ignore[misc]
    """What must be in a stream does not come."""


class Streams:
    """All streams that one connection works with. `channel` has publisher confirms."""

    def __init__(
        self, connection: Any, express: Express | None = None, pump: Pump | None = None
    ) -> None:
        """`express` and `pump`: the ways of that connection for whoever appends often."""
        self._connection = connection
        self.channel = connection.channel()
        self.channel.confirm_delivery()
        self._vigil = vigil = Vigil(connection)
        self._posting = Posting(connection, express, pump, vigil) if express and pump else None

    def declare(self, name: str, *, only_newest: bool = False) -> None:
        """Make a stream unless it is there. `only_newest`: it need not grow beyond its newest entries."""
        arguments: dict[str, Any] = {"x-queue-type": "stream"}
        if only_newest:
            arguments |= {
                "x-max-length-bytes": _SMALL,
                "x-stream-max-segment-size-bytes": _SMALL_SEGMENT,
            }
        else:
            arguments["x-stream-max-segment-size-bytes"] = _SEGMENT
        try:
            with self._vigil.over(name):
                self.channel.queue_declare(name, durable=True, arguments=arguments)
        except exceptions.ChannelClosedByBroker as error:
            raise refusals.naming("configure", error) from error

    def append(self, name: str, entry: Entry) -> None:
        """Store an entry; on return the server has confirmed it. Raises Gone, and the driver's errors."""
        try:
            self._put(name, entry.pack())
        except exceptions.UnroutableError as error:
            if self.present(name):  # a server that has just come up finds its streams one by one
                raise
            raise Gone(name) from error

    def _put(self, name: str, body: bytes) -> None:
        if self._posting is not None:
            self._posting.post(name, body)
            return
        with self._vigil.over(name):
            self.channel.basic_publish("", name, body, properties=_PERSISTENT, mandatory=True)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the connection while this thread is busy: the server gives up one that shows no sign of life."""
        done = threading.Event()
        # Within this nothing is handed out: what came in is for later, in this thread.
        with self._connection._acquire_event_dispatch():  # noqa: SLF001
            keeper = threading.Thread(
                target=_keep, args=(self._connection, done), name="millgate-keep", daemon=True
            )
            keeper.start()
            try:
                yield
            finally:
                done.set()
                keeper.join()

    def present(self, *names: str) -> bool:
        """Whether all these streams are there. Raises the driver's errors, also for one that cannot be reached now."""
        channel = self._connection.channel()
        try:
            for name in names:
                channel.queue_declare(name, passive=True)
        except exceptions.ChannelClosedByBroker as error:
            if refusals.absent(error):
                return False
            raise
        channel.close()
        return True

    def there(self, name: str) -> bool:
        """Whether a message to that queue would arrive: one that nobody needs is sent, and seen to come back or not.

        Nobody else's exclusive queue can be looked at, and each refusal would be an error in the server's log.
        """
        try:
            self.channel.basic_publish("", name, b"", properties=_PROBE, mandatory=True)
        except exceptions.UnroutableError:
            return False
        return True

    def delete(self, name: str) -> None:
        """Remove a stream, if it is there."""
        with self._vigil.over(name):
            self.channel.queue_delete(name)

    def close(self) -> None:
        """Give the channel back."""
        if self._connection.is_open:
            end(self.channel)

    def read(
        self,
        name: str,
        until: Entry | int,
        offset: int | str | None = None,
        ahead: int = _AHEAD,
    ) -> Iterator[tuple[Entry, int]]:
        """The entries and their offsets, from `offset` (None: the first that is kept) to `until`, an entry or an
        offset, that one included. Raises Gone, and the driver's errors.
        """
        for body, at in self._messages(name, "first" if offset is None else offset, ahead):
            entry = unpack(body)
            if entry is not None:
                yield entry, at
            if until in (entry, at):
                return

    def last(self, name: str) -> int | None:
        """The offset of one of the last entries, whatever it is; None: there is none. Raises as `read`."""
        try:
            return next(at for _, at in self._messages(name, "last", 1, _GLANCE))
        except Silent:
            return None

    def reaches(self, name: str, offset: int, mark: Entry) -> bool:
        """Whether a stream that `mark` was just put into has an entry at that offset before it."""
        found = list(self.read(name, mark, "last"))
        return found[-1][1] > offset

    def _messages(
        self, name: str, offset: int | str, ahead: int, silence: float = _SILENCE
    ) -> Iterator[tuple[bytes, int]]:
        channel = self._connection.channel()
        try:
            channel.basic_qos(prefetch_count=ahead)
            for method, properties, body in channel.consume(
                name, arguments={"x-stream-offset": offset}, inactivity_timeout=silence
            ):
                if method is None:
                    raise Silent(f"{name} brings nothing")
                channel.basic_ack(method.delivery_tag)
                yield body, properties.headers["x-stream-offset"]
            if self.present(name):  # a replica that went away takes its consumers along
                raise exceptions.ConsumerCancelled
            raise Gone(name)
        except exceptions.ChannelClosedByBroker as error:
            if refusals.absent(error):
                raise Gone(name) from error
            raise refusals.naming("read", error) from error
        finally:
            if self._connection.is_open:
                end(channel)


def end(channel: Any) -> None:
    """Close a channel that reads a stream.

    The driver's own way rejects what is under way to the channel's consumers, and for a rejection streams close the
    whole connection. What is below that way closes the channel alone.
    """
    if channel.is_open:
        channel._impl.close()  # noqa: SLF001
        channel._flush_output(lambda: channel.is_closed)  # noqa: SLF001


def _keep(connection: Any, done: threading.Event) -> None:
    with suppress(exceptions.AMQPError, OSError):  # whoever works with it next is told
        while not done.wait(_SIGN):
            connection.process_data_events(0)
