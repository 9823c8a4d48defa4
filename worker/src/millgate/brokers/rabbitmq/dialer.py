"""How a broker object comes to its brokerd: over one connection, made when needed and made again when lost."""

from __future__ import annotations

import math
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
from millgate.errors import BrokerTimeout, VersionUnsupported

_CONNECT: Final = 4.0  # seconds for one attempt to connect
_ELSEWHERE: Final = 5.0  # seconds without a brokerd after which another node is asked
_DOUBT: Final = 0.3  # seconds for a server to show that a connection still carries something


class Dialer:
    """Makes the links of one session."""

    def __init__(self, target: Target, queue: str, clock: Clock) -> None:
        self._target = target
        self._queue = queue
        self._clock = clock
        self._fresh()

    def _fresh(self) -> None:
        """Begin with nothing: at first, and in a forked child, whose parent's threads may have held the locks."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self.starts = 0  # of brokerds, so far
        #: What a call was told that found none since the last start.
        self._absent: Absent | None = None
        self._wire: Wire | None = None
        #: Since when calls find no brokerd, or since another node was last asked; None: the last one found it.
        self.missed: float | None = None

    def __call__(self, caller: Caller, end: float) -> DialedLine:
        """A link for a call that ends by `end` (monotonic seconds)."""
        if self._pid != os.getpid():
            self._fresh()
        if self._absent is not None:
            self._start(self._absent, end)
        return DialedLine(self, self._present(caller, end).line(self._clock))

    def close(self) -> None:
        """Close the connection."""
        if self._pid == os.getpid():
            self._hang_up()

    def _hang_up(self) -> None:
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

    def missing(self, absent: Absent, starts: int) -> NoReturn:
        """Nobody serves the queue, after so many starts: raises Absent. Where that is wanted, the next link comes with
        a brokerd: whoever asks for it says how long its call may take."""
        self._look_elsewhere()
        if not self._target.may_start:
            raise Absent(
                f"{absent}; its operator runs one, or: millgate brokerd --broker URL --queue {self._queue}"
            ) from absent
        if starts == self.starts:
            self._absent = absent
        raise absent

    def _look_elsewhere(self) -> None:
        """Let the next call come by another node, when this one has known of no brokerd for long: one that was cut off
        from the others for a moment may have missed what they know, and lives on."""
        now = self._clock.monotonic()
        if self.missed is None:
            self.missed = now
        elif now >= self.missed + _ELSEWHERE and len(self._target.addresses) > 1:
            self.missed = now
            self._hang_up()

    def _start(self, absent: Absent, end: float) -> None:
        """Start a brokerd, unless another thread has. Raises BrokerTimeout, and what keeps it from coming up."""
        from millgate.brokers.rabbitmq import launch  # with subprocess: not what a producer needs

        if not self._starting.acquire(timeout=max(0.0, end - self._clock.monotonic())):
            raise BrokerTimeout(f"{absent}; another thread is starting it") from absent
        try:
            if self._absent is absent:  # no other thread has done it meanwhile
                launch.start(self._target, self._queue, self._clock, end)
                self.starts += 1
        finally:
            self._absent = None  # the next call finds out anew whether there is one
            self._starting.release()


class DialedLine:
    """A line that has a brokerd started when there is none."""

    def __init__(self, dialer: Dialer, line: Line) -> None:
        self._dialer = dialer
        self._line = line
        self._starts = dialer.starts
        self.send = line.send
        self.readable = line.readable
        self.close = line.close

    def receive(self, end: float, silence: float = math.inf) -> bytes:
        """The next answer, when it comes before `end`, and nothing of it for no longer than `silence` seconds. Raises
        BrokerUnavailable and its kinds."""
        try:
            answer = self._line.receive(end, silence)
        except Absent as absent:
            self._dialer.missing(absent, self._starts)
        self._dialer.missed = None
        return answer
