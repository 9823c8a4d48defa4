"""How a broker object comes to its brokerd: over one connection, made when needed and made again when lost."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Final, NoReturn

from millgate.brokers.rabbitmq.connection import check, first
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.url import Target
from millgate.brokers.rabbitmq.wire import Absent, Line, Wire
from millgate.brokers.served.caller import Caller
from millgate.clock import Clock
from millgate.errors import BrokerTimeout, BrokerUnavailable, VersionUnsupported

_CONNECT: Final = 4.0  # seconds for one attempt to connect
_DOUBT: Final = 0.3  # seconds for a server to show that a connection still carries something


class Started(BrokerUnavailable):
    """A brokerd was started just now: the call can be made again."""


class Dialer:
    """Makes the links of one session."""

    def __init__(self, target: Target, queue: str, clock: Clock, start: float) -> None:
        """`start`: seconds that a brokerd may take to come up."""
        self._start = start
        self._target = target
        self._queue = queue
        self._clock = clock
        self._fresh()

    def _fresh(self) -> None:
        """Begin with nothing: at first, and in a forked child, whose parent's threads may have held the locks."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._starts = 0  # so far
        self._wire: Wire | None = None

    def __call__(self, caller: Caller, end: float) -> DialedLine:
        """A link for a call that ends by `end` (monotonic seconds)."""
        if self._pid != os.getpid():
            self._fresh()
        return DialedLine(self, self._present(caller, end).line(self._clock))

    def close(self) -> None:
        """Close the connection."""
        if self._pid != os.getpid():
            return
        with self._lock:
            wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _present(self, caller: Caller, end: float) -> Wire:
        # Whoever connects may take all of another's time.
        if not self._lock.acquire(timeout=max(0.0, end - self._clock.monotonic())):
            raise BrokerTimeout(f"{self._target.endpoint}: no time left to connect")
        try:
            wire = self._wire
            if wire is not None and not wire.trusted(min(_DOUBT, end - self._clock.monotonic())):
                wire.abandon()
                wire = None
            if wire is None or wire.ended is not None:
                wire = self._wire = self._connected(caller.client, end)
            return wire
        finally:
            self._lock.release()

    def _connected(self, client: str, end: float) -> Wire:
        soonest = min(end, self._clock.monotonic() + _CONNECT)
        make = partial(Wire, calls=Names(self._queue).calls, client=client)
        wire = first(self._target, f"millgate {self._queue}", self._clock, soonest, make)
        try:
            check(wire.connection, self._target)
        except VersionUnsupported:
            wire.close()
            raise
        return wire

    def start(self, absent: Absent, end: float) -> NoReturn:
        """Nobody serves the queue: start a brokerd, if that is wanted here. Raises Absent, Started, and what keeps
        it from coming up."""
        if not self._target.may_start:
            raise Absent(
                f"{absent}; its operator runs one, or: millgate brokerd --broker URL --queue {self._queue}"
            ) from absent
        from millgate.brokers.rabbitmq import launch  # with subprocess: not what a producer needs

        before = self._starts
        if not self._starting.acquire(timeout=max(0.0, end - self._clock.monotonic())):
            raise BrokerTimeout(f"{absent}; another thread is starting it") from absent
        try:
            if self._starts == before:  # no other thread has done it meanwhile
                end = max(end, self._clock.monotonic() + self._start)
                launch.start(self._target, self._queue, self._clock, end)
                self._starts += 1
        finally:
            self._starting.release()
        raise Started from absent


class DialedLine:
    """A line that has a brokerd started when there is none."""

    def __init__(self, dialer: Dialer, line: Line) -> None:
        self._dialer = dialer
        self._line = line
        self.send = line.send
        self.readable = line.readable
        self.close = line.close

    def receive(self, end: float) -> bytes:
        """The next answer, when it comes before `end`. Raises BrokerUnavailable and its kinds."""
        try:
            return self._line.receive(end)
        except Absent as absent:
            self._dialer.start(absent, end)
