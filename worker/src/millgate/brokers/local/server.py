"""The event loop of a broker: one thread, every socket, and no wake-up when nothing is due.

A turn takes what has arrived, at most one call of each connection, and hands it to the desk together. A peer that
does not read, or does not prove the key, holds up nobody and is dropped after a while.
"""

from __future__ import annotations

import math
import selectors
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from logging import getLogger
from typing import Any, Final

from millgate.brokers.local import handshake, snapshot
from millgate.brokers.local.connection import Connection, Gone
from millgate.brokers.local.journal import Journal
from millgate.brokers.served.attention import Attention
from millgate.brokers.served.desk import Came, Desk
from millgate.brokers.served.engine import Engine
from millgate.brokers.served.forked import fork
from millgate.brokers.served.steady import Steady
from millgate.clock import Clock
from millgate.errors import BrokerRefused, BrokerUnavailable, NotDecodable

CONNECTIONS: Final = 1000
_STALL: Final = 30.0  # seconds that a peer may leave an answer unread
_DEAF: Final = 1.0  # seconds without new connections after one could not be accepted
_ACCEPTS: Final = 64  # new connections in one turn
_LOOK: Final = 1.0  # seconds of one wait while somebody has what must be renewed
_SYNC: Final = 0.01  # seconds after which what only workers said is on the disk
#: One wait lasts at most this long: the system takes no more than 24 days, and a task may be due in a hundred years.
_LONGEST: Final = 86_400.0
_REFUSED: Final = 1.0  # seconds until a disk that refused it is asked again
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

log = getLogger("millgate.brokers.local")


class Server:
    """All connections of one listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        read_key: Callable[[], bytes],
        engine: Engine,
        journal: Journal | None,
        clock: Clock,
    ) -> None:
        self.info: dict[str, Any] = {}  # what is said of this server, beside what it counts itself
        self.tls: ssl.SSLContext | None = None
        self.hello_timeout = 5.0  # seconds for a peer to prove the key
        self._listener = listener
        self._read_key = read_key
        self._engine = engine
        self._journal = journal
        self._clock = clock
        self._steady = Steady(clock, engine.now)
        self._attention = Attention(clock.monotonic())
        self._now = self._steady.now()  # of the last turn
        one_host = listener.family == socket.AF_UNIX
        self._desk = Desk(engine, journal, self._send, self._say, one_host=one_host)
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._watched: set[Connection] = set()  # those that must move within a time
        self._more: set[Connection] = set()  # those of which more than one call has been read
        self._came: list[Came] = []
        self._stopping = False
        self._writing = False  # a snapshot is on its way
        self._deaf_until: float | None = None
        self._sync_at: float | None = None
        self._began = clock.monotonic()
        self._selector.register(listener, _READ, self._accept)

    def watch(self, handle: int, when: Callable[[], None]) -> None:
        """Call `when` once `handle` is readable; it is not watched any more then."""

        def once(_mask: int) -> None:
            self._selector.unregister(handle)
            when()

        self._selector.register(handle, _READ, once)

    def stop(self) -> None:
        """End the loop after this turn."""
        self._stopping = True

    def run(self) -> None:
        """Serve until stopped, then close every connection."""
        while not self._stopping:
            self.turn(self._patience())
        self._listener.close()
        for connection in list(self._connections):
            self._drop(connection, "the broker stops")
        self._selector.close()

    def turn(self, timeout: float | None) -> None:
        """Wait for something to happen, at most `timeout` seconds, and deal with it."""
        for entry, mask in self._selector.select(timeout):
            entry.data(mask)
        if self._attention.returned(
            self._clock.monotonic(), math.inf if timeout is None else timeout
        ):
            self._make_good()
        self._deal()

    def _deal(self) -> None:
        """Carry out what has come, and what the time has."""
        more, self._more = self._more, set()
        for connection in more:
            self._take(connection)
        came, self._came = self._came, []
        monotonic = self._clock.monotonic()
        self._now = self._steady.now()
        self._desk.turn(self._now, monotonic, came)
        self._follow_clock()
        self._drop_stalled(monotonic)
        self._hear_again(monotonic)
        self._consider_sync(monotonic)
        self._consider_snapshot()

    def _make_good(self) -> None:
        """This process stood still, or waited for the disk: whoever tried to renew meanwhile comes now."""
        self._entered(self._engine.resumption(self._steady.now()))

    def _follow_clock(self) -> None:
        set_to = self._steady.set_to()
        if set_to is not None and self._entered(self._engine.correction(self._now, set_to)):
            self._steady.jump(set_to)
            log.warning("the machine's clock was set by %+.0f s", set_to - self._now)

    def _entered(self, record: bytes) -> bool:
        """Carry out a record of this process's own; False: it cannot be stored, nor could a call."""
        try:
            if self._journal is not None:
                self._journal.append([record])
        except BrokerUnavailable:
            return False
        self._engine.replay(record)
        return True

    def _patience(self) -> float | None:
        if self._more:
            return 0.0
        monotonic = self._clock.monotonic()
        wait = self._desk.wake_in(self._steady.now(), monotonic)
        ends = [connection.since + self._limit(connection) for connection in self._watched]
        ends += [at for at in (self._deaf_until, self._sync_at) if at is not None]
        for end in ends:
            left = max(0.0, end - monotonic)
            wait = left if wait is None else min(wait, left)
        if self._engine.held:
            wait = _LOOK if wait is None else min(wait, _LOOK)
        return None if wait is None else min(wait, _LONGEST)

    def _accept(self, _mask: int) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Out of file descriptors, say. The listener stays readable: asking it again at once would be a spin.
                log.warning("cannot accept a connection: %s", error)
                self._selector.unregister(self._listener)
                self._deaf_until = self._clock.monotonic() + _DEAF
                return
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        try:
            sock = self._tuned(sock)
        except OSError as error:  # it hung up before it was its turn
            log.debug("closing a connection (not proved): %s", error)
            sock.close()
            return
        connection = Connection(sock, self._read_key, self._clock.monotonic())
        if len(self._connections) >= CONNECTIONS:
            with suppress(Gone):
                full = BrokerRefused(f"the broker has {CONNECTIONS} connections, which is its most")
                connection.send(handshake.refusal(full))
            connection.close()
            return
        self._connections.add(connection)
        self._watched.add(connection)
        self._selector.register(connection, _READ, lambda mask: self._moved(connection, mask))

    def _tuned(self, sock: socket.socket) -> socket.socket:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.tls is None:
            return sock
        sock.getpeername()  # of one that has reset, TLS would leave the handle open
        return self.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def _moved(self, connection: Connection, mask: int) -> None:
        try:
            if mask & _WRITE:
                connection.flush(self._clock.monotonic())
                if not connection.blocked:
                    self._selector.modify(
                        connection, _READ, self._selector.get_key(connection).data
                    )
                    self._watched.discard(connection)
                    self._more.add(connection)
            if mask & _READ:
                connection.read()
        except Gone as gone:
            self._drop(connection, str(gone))
            return
        self._take(connection)

    def _take(self, connection: Connection) -> None:
        """Take the next frame of a connection, if it is there whole."""
        if connection.blocked or connection not in self._connections:
            return
        try:
            payload = connection.next()
            if payload is None:
                return
            if connection.more:
                self._more.add(connection)
            if connection.caller is None:
                connection.greet(payload, self._welcome)
                if connection.caller is not None:
                    self._watched.discard(connection)
                return
            self._desk.leave(connection)
            self._came.append(Came(connection, connection.caller, payload))
        except (Gone, NotDecodable) as problem:
            self._drop(connection, str(problem))

    def _send(self, connection: Connection, payload: bytes) -> None:
        if connection not in self._connections:
            return
        try:
            connection.send(payload)
        except Gone as gone:
            self._drop(connection, str(gone))
            return
        if connection.blocked and connection not in self._watched:
            connection.since = self._clock.monotonic()
            self._watched.add(connection)
            self._selector.modify(connection, _WRITE, self._selector.get_key(connection).data)

    def _drop(self, connection: Connection, why: str) -> None:
        if connection not in self._connections:
            return
        known = connection.caller is not None
        log.debug("closing a connection (%s): %s", "proved" if known else "not proved", why)
        self._connections.discard(connection)
        self._watched.discard(connection)
        self._desk.leave(connection)
        self._selector.unregister(connection)
        connection.close()

    def _drop_stalled(self, monotonic: float) -> None:
        for connection in list(self._watched):
            if monotonic >= connection.since + self._limit(connection):
                self._drop(connection, "it did not move for too long")

    def _hear_again(self, monotonic: float) -> None:
        if self._deaf_until is not None and monotonic >= self._deaf_until:
            self._deaf_until = None
            self._selector.register(self._listener, _READ, self._accept)

    def _limit(self, connection: Connection) -> float:
        return self.hello_timeout if connection.caller is None else _STALL

    def _welcome(self) -> bytes:
        return handshake.welcome(self._say())

    def _say(self) -> dict[str, Any]:
        return {
            **self.info,
            "uptime": round(self._clock.monotonic() - self._began, 3),
            "journal": self._journal is not None,
            "connections": len(self._connections),
        }

    def _consider_sync(self, monotonic: float) -> None:
        journal = self._journal
        if journal is None or not journal.unsynced:
            self._sync_at = None
        elif self._sync_at is None:
            self._sync_at = monotonic + _SYNC
        elif monotonic >= self._sync_at:
            journal.sync()
            self._sync_at = monotonic + _REFUSED if journal.unsynced else None

    def _consider_snapshot(self) -> None:
        journal = self._journal
        if journal is None or self._writing or not journal.due:
            return
        path = journal.rotate()
        if path is None:
            return
        writer = fork(lambda: snapshot.write(path, self._engine.dump()))
        if writer is None:
            return
        self._writing = True

        def ended() -> None:
            self._writing = False
            size = writer.end()
            if size is not None:
                journal.written(size)
            else:
                log.warning("the snapshot %s was not written; the journals go on", path)

        self.watch(writer.pipe, ended)
