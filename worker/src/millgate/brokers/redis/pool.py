"""Connections that never wait longer than they may: a small pool, each call bounded, repeated while it is safe."""

from __future__ import annotations

import os
import random
import ssl
import threading
from typing import Any, Final

from millgate.brokers.address import Address
from millgate.brokers.redis.connection import Connection, Lost, Refused, Slow, Strange, connect
from millgate.brokers.redis.health import Demoted, Health, check
from millgate.brokers.redis.refusals import judge
from millgate.brokers.redis.route import Route
from millgate.brokers.redis.scripts import script
from millgate.brokers.redis.url import Target
from millgate.clock import Clock
from millgate.errors import (
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
    MillgateError,
    TLSFailed,
    UnsafeServer,
)
from millgate.shortage import of_files

_SPARE: Final = 4  # connections kept for the next call
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0


class Pool:
    """Connections to one target. Threads take one each, so no call waits behind another."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        self.target = target
        self.deadline = deadline
        self.clock = clock
        self.health: Health | None = None
        self._route = Route(target, clock)
        self._spare: list[tuple[int, Connection]] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    def evaluate(
        self, verb: str, *arguments: Any, deadline: float | None = None, replicas: int = 0
    ) -> Any:
        """What a script answers; repeated, with the same arguments, until it does or the deadline is over.

        Raises BrokerUnavailable too when fewer than `replicas` have in time what it wrote.
        """
        try:
            composed = script(verb)
        except OSError as error:  # it is read from its file when it is needed first
            why = of_files(error) or error
            raise BrokerUnavailable(
                f"{self.target.endpoint}: {verb} is not there: {why}"
            ) from error
        request = ("EVALSHA", composed.sha, "1", self.target.prefix, *arguments)
        return self.call(verb, request, composed.text, deadline, replicas)

    def call(
        self,
        verb: str,
        request: tuple[Any, ...],
        text: bytes = b"",
        deadline: float | None = None,
        replicas: int = 0,
    ) -> Any:
        """The reply to a request. `text` is loaded where the server does not know the script."""
        end = self.clock.monotonic() + (deadline or self.deadline)
        pause = _FIRST_PAUSE
        while True:
            connection: Connection | None = None
            try:
                connection = self.take(end)
                until = self._share(end)
                reply = self._run(connection, request, text, until)
                if replicas:
                    self._wait(connection, replicas, until)
            except (Lost, Refused, Strange, ssl.SSLError, UnsafeServer) as error:
                self.drop(connection, error)
                known, again = self._judge(error, verb, connection, end)
                left = end - self.clock.monotonic()
                if not again or left <= pause / 2:
                    raise known from error
                spread = random.uniform(pause / 2, pause)  # noqa: S311 -- not all in step
                self.clock.sleep(min(spread, left))
                pause = min(pause * 2, _LONGEST_PAUSE)
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            else:
                self.keep(connection)
                return reply

    def take(self, end: float) -> Connection:
        """A connection that nobody else uses. Raises Lost, Refused, Strange, ssl.SSLError, BrokerRefused's kinds."""
        self._route.look(end)
        with self._lock:
            if self._pid != os.getpid():
                # a forked child must not speak on its parent's connections
                _orphans.extend(connection for _, connection in self._spare)
                self._spare, self._pid = [], os.getpid()
            if self._closed:
                raise BrokerUnavailable("this broker object is closed")
            while self._spare:
                generation, connection = self._spare.pop()
                if generation == self._route.generation and not connection.closed:
                    return connection
                connection.close()
        return self._open(end)

    def keep(self, connection: Connection) -> None:
        """Give a connection back."""
        with self._lock:
            if not self._closed and len(self._spare) < _SPARE and not connection.closed:
                self._spare.append((self._route.generation, connection))
                return
        connection.close()

    def drop(self, connection: Connection | None, error: Exception) -> None:
        """A call failed: a refusal leaves the connection usable, anything else ends all of them."""
        if connection is None:
            return
        if isinstance(error, Refused) and not connection.closed:
            self.keep(connection)
            return
        connection.close()
        self._route.failed(connection.address)
        with self._lock:  # the others have probably died with it
            spare, self._spare = self._spare, []
        for _, other in spare:
            other.close()

    def close(self) -> None:
        """Close what is not in use; calls that are under way close theirs."""
        with self._lock:
            self._closed = True
            spare, self._spare = self._spare, []
        for _, connection in spare:
            connection.close()

    def _open(self, end: float) -> Connection:
        until = self._share(end)
        address = self._route.address(until)
        try:
            connection = connect(address, self.target.login, self.target.tls, self.clock, until)
        except (Lost, ssl.SSLError):
            self._route.failed(address)
            raise
        try:
            if self.target.database:
                connection.run("SELECT", str(self.target.database), until=until)
            self.health = check(connection, self.target.endpoint, until)
        except BaseException as error:
            connection.close()
            self._route.failed(address)
            if isinstance(error, Demoted) and self.target.master:
                self._route.demoted(address, error.master)
            raise
        return connection

    def _run(
        self, connection: Connection, request: tuple[Any, ...], text: bytes, until: float
    ) -> Any:
        try:
            return connection.run(*request, until=until)
        except Refused as error:
            if not text or not str(error).startswith("NOSCRIPT"):
                raise
        connection.run("SCRIPT", "LOAD", text, until=until)
        return connection.run(*request, until=until)

    def _wait(self, connection: Connection, replicas: int, until: float) -> None:
        """Wait until so many replicas have what this connection wrote; of another's writes a WAIT knows nothing."""
        left = max(until - self.clock.monotonic(), 0.01)
        millis = max(int(left * 900), 1)  # 0 would be for ever
        reached = connection.run("WAIT", replicas, millis, until=until)
        if reached < replicas:
            raise BrokerUnavailable(
                f"{self.target.endpoint}: {reached} of {replicas} replicas have it; repeating is safe"
            )

    def _share(self, end: float) -> float:
        """How long one attempt may take: half of what is left, so that there is a second one."""
        now = self.clock.monotonic()
        return now + max((end - now) / 2, min(0.5, max(end - now, 0.05)))

    def _judge(
        self, error: Exception, verb: str, connection: Connection | None, end: float
    ) -> tuple[MillgateError, bool]:
        endpoint = self.target.endpoint
        if isinstance(error, UnsafeServer):  # a replica, where there was a master or will be one
            return error, bool(self.health or self.target.master) and isinstance(error, Demoted)
        if isinstance(error, ssl.SSLError):
            return TLSFailed(f"{endpoint}: TLS failed ({error})"), False
        if isinstance(error, Strange):
            return ForeignPeer(f"{endpoint}: what listens there is not Redis ({error})"), False
        if isinstance(error, Slow):
            said = f"{endpoint} did not answer in time; the call may or may not have taken effect"
            return BrokerTimeout(said), True
        if isinstance(error, Lost):
            return BrokerUnavailable(f"{endpoint} cannot be reached: {error}"), True
        verdict = judge(str(error), endpoint, verb)
        if verdict.elsewhere and connection is not None:
            self._elsewhere(str(error), connection, end)
        return verdict.error, verdict.again

    def _elsewhere(self, text: str, connection: Connection, end: float) -> None:
        """Go where a Cluster points to. An ASK is never followed: the slot is half there until it has moved."""
        words = text.split()
        if words[0] == "MOVED" and len(words) == 3:
            host, _, port = words[2].rpartition(":")
            if not connection.closed:
                self._route.moved(Address(host, int(port)), connection, self._share(end))
        elif words[0] not in ("ASK", "TRYAGAIN"):
            connection.close()
            self._route.failed(connection.address)


#: Connections of a parent process, kept so that dropping them does not disturb its sessions.
_orphans: list[Connection] = []
