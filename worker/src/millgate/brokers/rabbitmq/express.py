"""The shortest way between a socket and whoever waits, past the driver: for messages and their confirmations alone.

The driver makes objects of each frame and three system calls of each message, which takes longer than the server
does. Opening and closing, signs of life and refusals stay with it: it gets all frames that are not known here.
"""

# ruff: noqa: SLF001 -- there is no public way into the driver; all of its own that is touched for this is touched here

from __future__ import annotations

import ssl
import threading
from array import array
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, Final

from millgate.brokers.rabbitmq.packets import Splitter, Take, message

_READ: Final = 65536  # bytes at once


class Express:
    """One connection's way; `inner` is the driver's connection without its wrapping, and is open."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._splitter = Splitter(inner._on_data_available, inner._frame_buffer)
        inner._frame_buffer = b""
        self._transport = inner._transport
        self._largest = inner.params.frame_max
        self._emit = inner._adapter_emit_data
        self._sending = threading.Lock()
        self._thread = threading.get_ident()
        sock = self._transport._sock
        self._socket: Any = None if isinstance(sock, ssl.SSLSocket) else sock
        inner._on_data_available = self._came
        inner._output_marshaled_frames = self._output
        if self._socket is not None:
            self._produce = self._transport._produce
            self._transport._produce = self._produced
            self._transport._MAX_RECV_BYTES = _READ
            self._transport._MAX_CONSUME_BYTES = 1  # the kernel says it again when there is more

    def watch(self, channel: int, take: Take) -> None:
        """Have what comes on a channel handed to `take`, in the connection's thread."""
        self._splitter.open(channel, take)

    def moved(self) -> tuple[int, int]:
        """Bytes that have come so far, on all channels, and that the other end has taken."""
        inner = self._inner
        return int(inner.bytes_received), int(inner.bytes_sent) - self._left()

    def moves(self, channel: int, before: tuple[int, int]) -> bool:
        """Whether it is in the middle of something, to come on a channel or to go, of which more has moved than had
        `before`."""
        came, went = self.moved()
        coming = self._splitter.begun(channel) and came > before[0]
        return coming or (self._left() > 0 and went > before[1])

    def _left(self) -> int:
        """Bytes that wait to be sent, here and in the system."""
        waiting = array("i", [0])
        with suppress(OSError, ValueError):  # it is closed
            ioctl(self._transport._sock, TIOCOUTQ, waiting)
        return int(self._transport.get_write_buffer_size()) + waiting[0]

    def publish(
        self, channel: int, queue: str, body: bytes, said: bytes, *, mandatory: bool = False
    ) -> None:
        """Put a message into a queue; `said` is what `Properties.pack` made. From any thread."""
        self.send(self.frames(channel, queue, body, said, mandatory=mandatory))

    def frames(
        self, channel: int, queue: str, body: bytes, said: bytes, *, mandatory: bool = False
    ) -> bytes:
        """What `publish` sends."""
        return message(channel, queue, body, said, mandatory=mandatory, largest=self._largest)

    def send(self, data: bytes) -> None:
        """Send whole frames. From any thread."""
        inner = self._inner
        inner.bytes_sent += len(data)  # by this the driver knows when a sign of life is due
        if self._socket is not None:
            with self._sending:
                self._sent(data)
        elif threading.get_ident() == self._thread:
            self._emit(data)
        else:
            inner.ioloop.add_callback_threadsafe(lambda: self._emit(data))

    def _came(self, data: bytes) -> None:
        self._inner.bytes_received += len(data)  # by this the driver knows that the server lives
        self._splitter.feed(data)

    def _sent(self, data: bytes) -> None:
        """Send what the socket takes, and leave the rest to the driver."""
        transport, sock = self._transport, self._socket
        if transport._tx_buffers:
            transport._buffer_tx_data(data)
            return
        try:
            done = sock.send(data)
        except BlockingIOError:
            done = 0
        except OSError:
            return  # the driver finds out when it reads
        if done < len(data):
            transport._buffer_tx_data(data[done:])
            self._inner.ioloop.add_callback_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Have the driver send what is left once the socket takes it."""
        transport = self._transport
        if transport._tx_buffers:
            transport._nbio.set_writer(
                transport._sock.fileno(),
                transport._on_socket_writable,
            )

    def _produced(self) -> None:
        with self._sending:
            self._produce()

    def _output(self, frames: list[bytes]) -> None:
        self._inner.frames_sent += len(frames)
        self.send(b"".join(frames))


def unheard(*_: object) -> None:
    """For the driver, which must be given something to call with what comes: that does not come by it."""
