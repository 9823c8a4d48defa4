"""Waiting on a connection: the driver's loop turned step by step, without the timer that the driver makes for each of
its own waits. Those timers stay in a heap until their time has come, and every call would wait twice.
"""

# ruff: noqa: SLF001 -- there is no public way to turn the driver's loop one step

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pika.compat import time_now


class Pump:
    """Of one of the driver's blocking connections, for the thread that works with it."""

    def __init__(self, connection: Any) -> None:
        """`connection` is open, and lives as long as this."""
        self._connection, self._inner = connection, connection._impl
        self._loop = self._inner.ioloop
        self._end = math.inf  # of the present wait, by the driver's clock
        poller = self._loop._poller
        self._timers = poller._get_wait_seconds
        poller._get_wait_seconds = self._left

    @property
    def asked(self) -> bool:
        """Whether the driver wants its turn: it has something to tell, or the connection has ended."""
        connection = self._connection
        return bool(
            connection._ready_events
            or connection._channels_pending_dispatch
            or not self._inner.is_open
        )

    def dispatch(self) -> None:
        """Let the driver tell what it has to tell. Raises its errors."""
        if self.asked:
            self.check()
            self._connection.process_data_events(0)

    def check(self) -> None:
        """Raise what the connection ended with, if it has: later the driver only says that it is closed."""
        closed = self._connection._closed_result
        if closed.ready:
            raise closed.value.error

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Let come and go what there is, until `done` says so, for that many seconds at most; whether it is done.

        A connection that ends makes this return at once.
        """
        self._end = time_now() + seconds
        try:
            while not done():
                if time_now() >= self._end or not self._inner.is_open:
                    return False
                self._loop.poll()
                self._loop.process_timeouts()
        finally:
            self._end = math.inf
        return True

    def _left(self) -> float:
        """Seconds until this wait ends, or one of the driver's timers."""
        left: float = max(0.0, self._end - time_now())
        timers: float | None = self._timers()
        return left if timers is None else min(left, timers)
