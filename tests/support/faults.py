"""A proxy between a client and a server that breaks connections on request: TCP or Unix socket on either side.

A fault hits the next request that fits (`arm`), or every connection at once (`stall`, `drop`, `silence`, `cut`,
`reset`, `refuse`) until `heal`. A request is one burst of bytes from the client, its reply the server's next burst.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path

Address = tuple[str, int] | str


class Fault(StrEnum):
    """What happens to one request."""

    CUT_BEFORE = "cut before the request"  # the server never sees it
    # The server carried it out; the client never learns.
    CUT_BETWEEN = "cut between request and reply"
    CUT_AFTER = "cut after the reply"
    RESET = "reset"  # the client gets RST, the server never sees the request
    STALL = "stall"  # nothing passes on this connection until heal()
    DROP = "silent drop"  # request and all that follows vanish; the connection stays open


class _Mode(Enum):
    PASS = 0
    STALL = 1
    DROP = 2


@dataclass(slots=True)
class _Trap:
    fault: Fault
    fits: Callable[[bytes], bool]


class _Connection:
    """One client and its connection to the server, pumped by two threads."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy, self.client, self.server = proxy, client, server
        self.mode = _Mode.PASS
        self.after: Fault | None = None  # what to do with the next reply
        self.closed = False
        for pump in (self._upstream, self._downstream):
            threading.Thread(target=pump, daemon=True).start()

    def _upstream(self) -> None:
        with suppress(OSError):
            while data := self.client.recv(1 << 16):
                if not self._pass(data):
                    continue
                fault = self.proxy.spring(data)
                if fault in (Fault.CUT_BEFORE, Fault.RESET):
                    self.close(reset=fault is Fault.RESET)
                    return
                if fault in (Fault.STALL, Fault.DROP):
                    self.mode = _Mode.STALL if fault is Fault.STALL else _Mode.DROP
                    if not self._pass(data):
                        continue
                elif fault is not None:
                    self.after = fault
                time.sleep(len(data) / self.proxy.pace)
                self.server.sendall(data)
        self.close()

    def _downstream(self) -> None:
        with suppress(OSError):
            while data := self.server.recv(1 << 16):
                if not self._pass(data):
                    continue
                if self.after is Fault.CUT_BETWEEN:
                    break
                time.sleep(len(data) / self.proxy.pace)
                self.client.sendall(data)
                if self.after is Fault.CUT_AFTER:
                    break
        self.close()

    def _pass(self, data: bytes) -> bool:
        """Wait while stalled; whether the bytes go on (not when they are dropped)."""
        with self.proxy.changed:
            self.proxy.changed.wait_for(lambda: self.closed or self.state() is not _Mode.STALL)
            return self.state() is _Mode.PASS and not self.closed

    def state(self) -> _Mode:
        return self.mode if self.mode is not _Mode.PASS else self.proxy.mode

    def close(self, *, reset: bool = False) -> None:
        with self.proxy.changed:
            if self.closed:
                return
            self.closed = True
            self.proxy.changed.notify_all()
        self.proxy.forget(self)
        if reset:
            with suppress(OSError):
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for side in (self.client, self.server):
            if not (reset and side is self.client):
                with suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)
            side.close()


class FaultProxy:
    """Listens on loopback (or a Unix socket) and forwards to `target`."""

    def __init__(self, target: Address, listen: Path | None = None) -> None:
        self._target = target
        self._path = listen
        self._port = 0
        self.mode = _Mode.PASS
        self.pace = math.inf  # bytes a second that pass, each way
        self.changed = threading.Condition(threading.RLock())
        self._connections: set[_Connection] = set()
        self._traps: list[_Trap] = []
        #: How many armed faults have hit a request.
        self.sprung = 0
        self._listener: socket.socket | None = None
        self.accept()

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        return self._port

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        with self.changed:
            return len(self._connections)

    @property
    def abandoned(self) -> int:
        """How many clients have hung up while something of theirs was still on its way."""
        with self.changed:
            poll = select.poll()
            for connection in self._connections:
                poll.register(connection.client, select.POLLRDHUP)
            return len(poll.poll(0))

    def arm(self, fault: Fault, *, match: bytes | Callable[[bytes], bool] = b"") -> None:
        """Let `fault` hit the next request that contains `match` (or for which it answers true)."""
        fits = match if callable(match) else lambda data: match in data
        with self.changed:
            self._traps.append(_Trap(fault, fits))

    def spring(self, data: bytes) -> Fault | None:
        """The fault that is due for this request."""
        with self.changed:
            for trap in self._traps:
                if trap.fits(data):
                    self.sprung += 1
                    self._traps.remove(trap)
                    return trap.fault
        return None

    def stall(self) -> None:
        """Let nothing pass in either direction; connections stay open."""
        self._set(_Mode.STALL)

    def drop(self) -> None:
        """Throw away all bytes in both directions; connections stay open."""
        self._set(_Mode.DROP)

    def redirect(self, target: Address) -> None:
        """Where new connections lead from now on, as a name that points elsewhere; the present ones stay."""
        self._target = target

    def silence(self) -> None:
        """Throw away all bytes of the connections that are there now; they stay open, and new ones work."""
        with self.changed:
            for connection in self._connections:
                connection.mode = _Mode.DROP

    def cut(self, *, reset: bool = False) -> None:
        """End all present connections."""
        with self.changed:
            present = list(self._connections)
        for connection in present:
            connection.close(reset=reset)

    def refuse(self) -> None:
        """Refuse new connections and end the present ones."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()

    def accept(self) -> None:
        """Take connections again, at the same address."""
        if self._listener is not None:
            return
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(self._path))
        else:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self._port))
            self._port = listener.getsockname()[1]
        listener.listen(128)
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def heal(self) -> None:
        """Disarm everything and pass all bytes; stalled ones go on, dropped ones are lost."""
        with self.changed:
            self._traps.clear()
            for connection in self._connections:
                connection.mode = _Mode.PASS
        self._set(_Mode.PASS)
        self.accept()

    def close(self) -> None:
        """End everything."""
        self.refuse()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def forget(self, connection: _Connection) -> None:
        """A connection has ended."""
        with self.changed:
            self._connections.discard(connection)

    def _set(self, mode: _Mode) -> None:
        with self.changed:
            self.mode = mode
            self.changed.notify_all()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = self._connect()
            except OSError:
                client.close()
                continue
            for side in (client, server):
                if side.family != socket.AF_UNIX:
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.pace < math.inf:  # a slow line keeps little
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            connection = _Connection(self, client, server)
            with self.changed:
                if not connection.closed:
                    self._connections.add(connection)

    def _connect(self) -> socket.socket:
        if isinstance(self._target, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            return server
        return socket.create_connection(self._target, timeout=None)
