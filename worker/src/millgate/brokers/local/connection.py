"""The server's side of one connection: bytes in, calls out, answers back. It never blocks and never waits for its peer.

While an answer is not sent whole, nothing more is read: what a peer can make the server keep is one answer.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import Final

from millgate.brokers.local import framing, handshake, key
from millgate.brokers.served import frames
from millgate.brokers.served.caller import Caller
from millgate.errors import ForeignPeer, MillgateError

_CHUNK: Final = 256 * 1024
_WANT: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Gone(Exception):
    """The peer hung up, or is not worth keeping."""


class Connection:
    """One peer. `caller` is None until it has proved the key."""

    __slots__ = (
        "_challenge",
        "_out",
        "_read_key",
        "_socket",
        "_splitter",
        "_theirs",
        "caller",
        "since",
    )

    def __init__(self, sock: socket.socket, read_key: Callable[[], bytes], now: float) -> None:
        self._socket = sock
        self._read_key = read_key
        self._splitter = framing.Splitter(framing.HELLO_BOUND)
        self._out = bytearray()
        self._challenge = key.challenge()
        self._theirs: bytes | None = None
        self.caller: Caller | None = None
        #: When it last moved: its bytes were taken, or it was accepted. Monotonic seconds.
        self.since = now

    def fileno(self) -> int:
        """For the selector."""
        return self._socket.fileno()

    @property
    def blocked(self) -> bool:
        """Whether an answer waits for the peer to read."""
        return bool(self._out)

    @property
    def more(self) -> bool:
        """Whether something is left of what was read."""
        return self._splitter.started

    def read(self) -> None:
        """Take some of what has arrived, unless a frame waits already. Raises Gone."""
        if self._splitter.whole:
            return
        data, taken = self._received(), 0
        while data:
            self._splitter.feed(data)
            taken += len(data)
            data = self._received() if self._goes_on(taken) else b""

    def next(self) -> bytes | None:
        """The next whole frame that was read; None: not all of it is there. Raises Gone."""
        try:
            return self._splitter.next()
        except frames.FrameTooLarge as error:
            raise Gone(str(error)) from error

    def greet(self, payload: bytes, welcome: Callable[[], bytes]) -> None:
        """Take the next frame of the handshake; `caller` is set when it is complete. Raises Gone."""
        try:
            secret = self._read_key()
            if self._theirs is None:
                answer, self._theirs = handshake.challenge(payload, secret, self._challenge)
                self.send(answer)
                return
            self.caller = handshake.caller(payload, secret, self._challenge, self._theirs)
        except ForeignPeer as error:
            raise Gone("it does not speak the local protocol") from error
        except MillgateError as error:
            self.send(handshake.refusal(error))
            raise Gone(str(error)) from error
        self._splitter.bound = frames.CALL_BOUND
        self.send(welcome())

    def send(self, payload: bytes) -> None:
        """Send a frame, or keep what does not go now. Raises Gone."""
        data = framing.frame(payload)
        if not self._out:
            done = self._sent(data)
            if done == len(data):
                return
            data = data[done:]
        self._out += data

    def flush(self, now: float) -> None:
        """Send more of what was kept. Raises Gone."""
        done = self._sent(self._out)
        if done:
            del self._out[:done]
            self.since = now

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _goes_on(self, taken: int) -> bool:
        """Whether to read on: TLS gives little at a time, and may have more that no selector will speak of. But a peer
        that sends faster than it is read must not keep the server here."""
        sock = self._socket
        return isinstance(sock, ssl.SSLSocket) and (taken < _CHUNK or sock.pending() > 0)

    def _received(self) -> bytes:
        try:
            data = self._socket.recv(_CHUNK)
        except _WANT:
            return b""
        except OSError as error:
            raise Gone(str(error)) from error
        if not data:
            raise Gone("it hung up")
        return data

    def _sent(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except _WANT:
            return 0
        except OSError as error:
            raise Gone(str(error)) from error
