"""One connection of a client to a local broker: made, proved, and used for one call at a time."""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Mapping
from typing import Any, Final

from millgate.brokers.local import framing, handshake, key
from millgate.brokers.local.address import Address
from millgate.brokers.served import frames
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.link import Hangup
from millgate.clock import Clock
from millgate.errors import (
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
    PermissionMissing,
    TLSFailed,
)
from millgate.shortage import of_files

_CHUNK: Final = 256 * 1024


class Absent(BrokerUnavailable):
    """Nobody listens at the broker's address."""


class Link:
    """A proved connection. Whoever holds it has it alone."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self._socket = sock
        self._clock = clock
        self._splitter = framing.Splitter(framing.HELLO_BOUND)
        self.info: Mapping[str, Any] = {}

    def send(self, payload: bytes, end: float) -> None:
        """Send one frame before `end` (monotonic seconds). Raises Hangup, BrokerTimeout."""
        try:
            self._socket.settimeout(self._left(end))
            self._socket.sendall(framing.frame(payload))
        except TimeoutError as error:
            raise BrokerTimeout from error
        except OSError as error:
            raise Hangup(f"the broker hung up: {error.strerror or error}") from error

    def receive(self, end: float, silence: float = math.inf) -> bytes:
        """The next frame, when it comes before `end`, and nothing of it for no longer than `silence` seconds. Raises
        Hangup, BrokerTimeout, NotDecodable."""
        while True:
            payload = self._splitter.next()
            if payload is not None:
                return payload
            try:
                self._socket.settimeout(min(self._left(end), silence))
                data = self._socket.recv(_CHUNK)
            except TimeoutError as error:
                raise BrokerTimeout from error
            except OSError as error:
                raise Hangup(f"the broker hung up: {error.strerror or error}") from error
            if not data:
                raise Hangup
            self._splitter.feed(data)

    def readable(self, other: int, end: float) -> bool:
        """Wait for a frame to begin, for `other` to be readable, or for `end`; answer whether it was the first."""
        if self._splitter.started or self._pending():
            return True
        poll = select.poll()
        own = self._socket.fileno()
        poll.register(own, select.POLLIN)
        poll.register(other, select.POLLIN)
        left = max(0.0, end - self._clock.monotonic())
        return any(handle == own for handle, _ in poll.poll(left * 1000))

    def close(self) -> None:
        """Close it; the broker notices."""
        self._socket.close()

    def prove(self, address: Address, caller: Caller, end: float) -> None:
        """Show the key, and let the broker show it. Raises ForeignPeer, AuthFailed, BrokerTimeout, Hangup …"""
        own = key.challenge()
        self.send(handshake.hello(own), end)
        second = self._frame(end)
        secret = key.read(address.key_file, private=address.private_key)
        self.send(handshake.answer(second, secret, own, caller), end)
        self.info = handshake.welcomed(self._frame(end))
        self._splitter.bound = frames.ANSWER_BOUND

    def _frame(self, end: float) -> bytes:
        try:
            return self.receive(end)
        except frames.FrameTooLarge as error:
            raise ForeignPeer from error

    def _pending(self) -> bool:
        pending = getattr(self._socket, "pending", None)  # TLS may hold decrypted bytes back
        return pending is not None and pending() > 0

    def _left(self, end: float) -> float:
        left = end - self._clock.monotonic()
        if left <= 0:
            raise BrokerTimeout
        return left


def connect(address: Address, caller: Caller, clock: Clock, end: float) -> Link:
    """A proved connection before `end` (monotonic seconds).

    Raises BrokerUnavailable when nobody listens, BrokerTimeout when nobody answers, ForeignPeer, AuthFailed,
    TLSFailed, VersionUnsupported.
    """
    link = Link(_open(address, clock, end), clock)
    try:
        link.prove(address, caller, end)
    except BaseException:
        link.close()
        raise
    return link


def _open(address: Address, clock: Clock, end: float) -> socket.socket:
    place = address.place
    left = max(0.001, end - clock.monotonic())
    try:
        if place.path is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(left)
                sock.connect(str(place.path))
            except BaseException:
                sock.close()
                raise
            return sock
        sock = socket.create_connection((place.host, place.port), timeout=left)
    except TimeoutError as error:
        raise BrokerTimeout(f"nobody answers at {place}") from error
    except (ConnectionRefusedError, FileNotFoundError) as error:
        start = (
            "start a worker or `millgate brokerd`"
            if address.starts
            else "start one there: millgate brokerd --listen HOST:PORT --key-file FILE"
        )
        raise Absent(f"no broker at {place}: {error.strerror}; {start}") from error
    except PermissionError as error:
        raise PermissionMissing(f"this user may not open {place}; it is another user's") from error
    except OSError as error:
        why = of_files(error) or error.strerror or str(error)
        raise BrokerUnavailable(f"no broker at {place}: {why}") from error
    _tune(sock)
    return _wrap(sock, address) if address.tls else sock


def _tune(sock: socket.socket) -> None:
    """Calls are small and must go at once; a peer whose machine died must be noticed."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _wrap(sock: socket.socket, address: Address) -> socket.socket:
    import ssl  # four megabytes that a Unix socket does not need

    try:
        context = ssl.create_default_context(cafile=str(address.ca) if address.ca else None)
        if not address.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(sock, server_hostname=address.place.host)
    except TimeoutError as error:
        sock.close()
        raise BrokerTimeout(f"no TLS handshake with {address.place} in time") from error
    except (OSError, ssl.SSLError) as error:
        sock.close()
        raise TLSFailed(f"TLS with {address.place}: {error}") from error
