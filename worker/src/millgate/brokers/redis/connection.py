"""One connection to one server, whose every wait ends in time. Replies are bytes, ints, lists and None."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import hiredis

from millgate.brokers.address import Address
from millgate.brokers.redis.url import Login
from millgate.clock import Clock
from millgate.shortage import of_files

_CHUNK: Final = 1 << 16


class Lost(Exception):
    """The connection ended, or could not be made; the last request may or may not have been carried out."""


class Slow(Lost):
    """No answer in time."""


class Refused(Exception):
    """The server answered with an error; the text is the server's."""


class Strange(Exception):
    """What came is not the protocol."""


class Connection:
    """A connection that is used by one thread at a time. `until` is on the clock's monotonic scale.

    A plain socket never blocks: what can be sent at once takes one call to the system, and what is awaited two. The
    timeout of a socket takes three each.
    """

    def __init__(self, sock: socket.socket, address: Address, clock: Clock) -> None:
        self.address = address
        self.clock = clock
        self.closed = False
        self._socket = sock
        self._plain = not isinstance(sock, ssl.SSLSocket)
        self._reader = hiredis.Reader()
        self._readable = select.poll()
        self._readable.register(sock.fileno(), select.POLLIN)
        if self._plain:
            sock.setblocking(False)

    def run(self, *request: Any, until: float) -> Any:
        """The reply to one request. Raises Lost, Slow, Refused, Strange."""
        self.send(*request, until=until)
        return self.read(until)

    def send(self, *request: Any, until: float) -> None:
        """Send a request. Raises Lost."""
        data = hiredis.pack_command(request)
        try:
            sent = self._socket.send(data) if self._plain else 0
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.close()
            raise _lost(error) from error
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:], until)

    def read(self, until: float) -> Any:
        """The next reply. Raises Lost, Slow, Refused, Strange."""
        reader = self._reader
        try:
            while (reply := reader.gets()) is False:
                left = max(until - self.clock.monotonic(), 0.001)
                if not self._plain:
                    self._socket.settimeout(left)
                elif not self._readable.poll(left * 1000):
                    raise TimeoutError
                data = self._socket.recv(_CHUNK)
                if not data:
                    raise ConnectionResetError("the server closed the connection")
                reader.feed(data)
        except OSError as error:
            self.close()
            raise _lost(error) from error
        except hiredis.ProtocolError as error:
            self.close()
            raise Strange(str(error)) from error
        if isinstance(reply, hiredis.ReplyError):
            raise Refused(str(reply))
        return reply

    def _send_rest(self, data: memoryview, until: float) -> None:
        """Send what the system did not take at once."""
        try:
            self._socket.settimeout(max(until - self.clock.monotonic(), 0.001))
            self._socket.sendall(data)
            if self._plain:
                self._socket.setblocking(False)
        except OSError as error:
            self.close()
            raise _lost(error) from error

    def ready(self, others: Sequence[int], seconds: float) -> list[int]:
        """Wait for a reply or for any of some descriptors; those that are readable."""
        if self._reader.has_data() or (
            isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        ):
            seconds = 0.0
        waiting = select.poll()
        for descriptor in (self._socket.fileno(), *others):
            waiting.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in waiting.poll(max(0.0, seconds) * 1000)]

    def fileno(self) -> int:
        """The descriptor, for `ready`."""
        return self._socket.fileno()

    def close(self) -> None:
        """End it; a parent process that has it too keeps it."""
        self.closed = True
        with suppress(OSError):
            self._socket.close()


def connect(
    address: Address, login: Login, tls: ssl.SSLContext | None, clock: Clock, until: float
) -> Connection:
    """A connection, logged in. Raises Lost, Refused, Strange, ssl.SSLError."""
    left = max(until - clock.monotonic(), 0.05)
    try:
        sock = socket.create_connection((address.host, address.port), timeout=left)
    except OSError as error:
        raise _lost(error) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_hostname=address.host)
    except ssl.SSLError:
        sock.close()
        raise
    except OSError as error:
        sock.close()
        raise _lost(error) from error
    connection = Connection(sock, address, clock)
    try:
        if login.user:
            connection.run("AUTH", login.user, login.password, until=until)
        elif login.password:
            connection.run("AUTH", login.password, until=until)
    except BaseException:
        connection.close()
        raise
    return connection


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _lost(error: OSError) -> Lost:
    if isinstance(error, TimeoutError):
        return Slow("no answer in time")
    return Lost(of_files(error) or str(error) or type(error).__name__)
