"""Connections that never wait longer than they may: a small pool, each call bounded, repeated while it is safe."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from math import ceil
from typing import Any, Final, TypeVar

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict

from millgate.brokers.postgres import arrays
from millgate.brokers.postgres.refusals import CONFLICTS, NOT_STORABLE, Expired, translate
from millgate.brokers.postgres.url import Target
from millgate.clock import Clock
from millgate.errors import BrokerUnavailable, InvalidInput, UnsafeServer, VersionUnsupported
from millgate.shortage import of_files, of_files_now

T = TypeVar("T")
OLDEST: Final = 120000  # the server's version number
_SPARE: Final = 4  # connections kept for the next call
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


#: The clock, and the seconds that one server may take to be connected to.
_connecting: ContextVar[tuple[Clock, float]] = ContextVar("connecting")


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait ends at `until` (on the clock's monotonic scale)."""

    clock: Clock
    until: float = float("inf")
    pooled: bool = False
    prepared: dict[bytes, bytes]  # statements of our own, and their names here

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Any:
        """The driver's way to one server; its own bound is no less than two seconds."""
        clock, seconds = _connecting.get()
        return _bounded(super()._connect_gen(conninfo), clock, clock.monotonic() + seconds)

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the driver's generator; raise Expired when the time is over."""
        if self.until == float("inf"):
            return super().wait(gen, *args, **kwargs)
        return super().wait(_bounded(gen, self.clock, self.until), *args, **kwargs)


def _bounded(gen: Any, clock: Clock, until: float) -> Generator[Any, Any, Any]:
    try:
        wanted = next(gen)
    except StopIteration as end:
        return end.value
    while True:
        ready = yield wanted
        if not ready and clock.monotonic() >= until:
            raise Expired("no answer in time")
        try:
            wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


class Spares:
    """Connections that wait for the next call, of one pool or of several with the same server and login."""

    def __init__(self) -> None:
        self._kept: list[Connection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._users = 0

    def join(self) -> None:
        """Another pool takes from here."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """A pool takes no more; with the last one the connections are closed."""
        with self._lock:
            self._users -= 1
        if self._users == 0:
            self.clear()

    def take(self) -> Connection | None:
        """One of them, for the caller alone."""
        with self._lock:
            self._own()
            return self._kept.pop() if self._kept else None

    def keep(self, connection: Connection) -> None:
        """Keep it for the next call, or close it when there are enough."""
        with self._lock:
            if self._users > 0 and len(self._kept) < _SPARE and not connection.closed:
                self._kept.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close all of them."""
        with self._lock:
            self._own()
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _own(self) -> None:
        """A forked child must not speak on its parent's connections, nor end them."""
        if self._pid != os.getpid():
            _orphans.extend(self._kept)
            self._kept, self._pid = [], os.getpid()


class Pool:
    """Connections to one target. Threads take one each, so no call waits behind another."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        self.target = target
        self.deadline = deadline
        self.clock = clock
        self.pooled = bool(target.pooler)  # known for sure after the first connection
        self._spares = Spares()
        self._spares.join()
        self._closed = False

    def share(self, spares: Spares) -> None:
        """Take from those, in place of some of its own; before the first call."""
        self._spares = spares
        spares.join()

    def call(self, verb: Callable[[Connection, bool], T], deadline: float | None = None) -> T:
        """What `verb(connection, repeated)` answers, within the deadline.

        After a lost connection it is called again on a new one, `repeated` then being true: the earlier call may have
        taken effect. Raises the errors of `millgate.errors`.
        """
        end = self.clock.monotonic() + (deadline or self.deadline)
        pause, repeated = _FIRST_PAUSE, False
        while True:
            connection: Connection | None = None
            try:
                connection = self._take(end)
                connection.until = self.clock.monotonic() + self._share(end)
                answer = verb(connection, repeated)
            except psycopg.Error as error:
                repeated = repeated or connection is not None
                self._drop(connection)
                pause = self._after(error, end, pause)
            except OSError as error:  # to wait for an answer takes a descriptor too
                self._drop(connection)
                why = of_files(error) or str(error)
                raise BrokerUnavailable(
                    f"{self.target.endpoint} cannot be reached: {why}"
                ) from error
            except UnicodeEncodeError as error:  # on its way out: nothing was sent
                self._drop(connection)
                raise InvalidInput(NOT_STORABLE.format(error)) from error
            except BaseException:
                self._drop(connection)
                raise
            else:
                self._keep(connection)
                return answer

    def open(self, timeout: float) -> Connection:
        """A new connection, checked; the caller closes it. Raises psycopg's errors, BrokerRefused."""
        try:
            connection = self._connect(timeout, self.pooled)
        except psycopg.OperationalError as error:
            if "unsupported startup parameter" not in str(error) or self.pooled:
                raise
            self.pooled = True  # a pooler that takes none of our settings
            connection = self._connect(timeout, True)
        try:
            self._check(connection, timeout)
        except BaseException:
            connection.close()
            raise
        return connection

    def check_open(self) -> None:
        """Raise BrokerUnavailable after `close`."""
        if self._closed:
            raise BrokerUnavailable("this broker object is closed")

    def close(self) -> None:
        """Close what is not in use; calls that are under way close theirs."""
        if not self._closed:
            self._closed = True
            self._spares.leave()

    def _take(self, end: float) -> Connection:
        self.check_open()
        return self._spares.take() or self.open(self._share(end))

    def _share(self, end: float) -> float:
        """Seconds for one step: half of what is left, so that there is time for another, unless that is too short."""
        left = end - self.clock.monotonic()
        return max(left / 2, min(left, 0.5), 0.05)

    def _keep(self, connection: Connection) -> None:
        connection.until = float("inf")
        if self._closed:
            connection.close()
        else:
            self._spares.keep(connection)

    def _drop(self, connection: Connection | None) -> None:
        if connection is None:
            return
        if (
            connection.closed
            or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        ):
            connection.close()
            self._spares.clear()  # the others have probably died with it
        else:
            self._keep(connection)

    def _after(self, error: psycopg.Error, end: float, pause: float) -> float:
        """Wait before the next attempt and answer the pause after that, or raise."""
        known = translate(error, self.target.endpoint)
        if error.sqlstate is None and isinstance(known, BrokerUnavailable):
            advice = of_files_now()  # the driver's own words are "no error details available"
            if advice is not None:
                known = BrokerUnavailable(f"{self.target.endpoint} cannot be reached: {advice}")
        left = end - self.clock.monotonic()
        if not isinstance(known, BrokerUnavailable) or left <= pause / 2:
            raise known from error
        if error.sqlstate in CONFLICTS:
            self.clock.sleep(random.uniform(0.001, 0.01))  # noqa: S311 -- spreads repeats
            return pause
        self.clock.sleep(min(left, random.uniform(pause / 2, pause)))  # noqa: S311
        return min(pause * 2, _LONGEST_PAUSE)

    def _connect(self, timeout: float, pooled: bool) -> Connection:
        keepalive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
        limits = {"tcp_user_timeout": int(max(self.deadline, 1.0) * 1000)}
        settings: dict[str, Any] = {"application_name": "millgate"}
        if not pooled:
            settings["options"] = f"-c statement_timeout={int(self.deadline * 1000)}"
        each = timeout / (1 + str(conninfo_to_dict(self.target.conninfo).get("host")).count(","))
        _connecting.set((self.clock, each))
        connection = Connection.connect(
            self.target.conninfo,
            autocommit=True,
            prepare_threshold=None if pooled else 1,
            connect_timeout=max(2, ceil(each)),
            context=_ADAPTERS,
            **(keepalive | limits | settings | dict(self.target.extra)),
        )
        connection.clock, connection.prepared = self.clock, {}
        return connection

    def _check(self, connection: Connection, timeout: float) -> None:
        version = connection.info.server_version
        if version < OLDEST:
            raise VersionUnsupported(
                f"{self.target.endpoint} runs PostgreSQL {version // 10000}; 12 or newer is required"
            )
        connection.until = self.clock.monotonic() + timeout
        row = connection.execute(
            "SELECT pg_backend_pid(), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
        ).fetchone()
        assert row is not None, "one row"
        if row[1]:
            raise UnsafeServer(
                f"{self.target.endpoint} is a read-only replica (or set read-only); connect to the primary"
            )
        if self.target.pooler is None and row[0] != connection.info.backend_pid:
            self.pooled = True  # what answers is not what we are connected to
        connection.pooled = self.pooled
        if self.pooled:
            connection.prepare_threshold = None
        connection.until = float("inf")


_ADAPTERS: Final = AdaptersMap(psycopg.adapters)
arrays.register(_ADAPTERS)

#: Connections of a parent process: dropping the last reference would close the parent's session.
_orphans: list[Connection] = []
