"""An eye on what a server is asked: a connection that lives may still never bring the answer.

A stream whose nodes lost track of each other, or a channel that waits for a leader which is gone, says nothing, and
whoever waits for it keeps the queue from everybody else. Another connection, to another node, may fare better.
"""

# ruff: noqa: SLF001 -- the driver's own timers wait until it is idle

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from logging import getLogger
from typing import Any, Final

from pika import exceptions

#: Seconds for an answer after which that is said.
SLOW: Final = 3.0
#: Seconds after which the connection is given up: longer than streams take to elect their leaders, mostly.
LONGEST: Final = 60.0

log = getLogger("millgate.brokers.rabbitmq")


class Unanswered(exceptions.AMQPConnectionError):  # type: ignore[misc]
    """The server did not do what it was asked, and said nothing."""


class Vigil:
    """Over one of the driver's blocking connections."""

    def __init__(self, connection: Any) -> None:
        """`connection` is open."""
        self._inner = connection._impl
        self._blocked = False  # by an alarm, which is the server's answer
        self._inner.add_on_connection_blocked_callback(self._block)
        self._inner.add_on_connection_unblocked_callback(self._unblock)

    @contextmanager
    def over(self, name: str, waited: float = 0.0) -> Iterator[None]:
        """Say it when what is done to a stream takes long, and break the connection when it takes too long, unless
        an alarm holds everything up. `waited` seconds are over already."""
        inner = self._inner
        timers = []
        if inner.is_open:
            timers.append(inner._adapter_call_later(max(0.0, SLOW - waited), partial(_say, name)))
            timers.append(inner._adapter_call_later(LONGEST - waited, partial(self._end, name)))
        try:
            yield
        finally:
            for timer in timers:
                if inner.is_open:
                    inner._adapter_remove_timeout(timer)

    def _end(self, name: str) -> None:
        if self._blocked or not self._inner.is_open:
            return
        silent = Unanswered(f"no answer for {LONGEST:g} s about {name}")
        self._inner._terminate_stream(silent)

    def _block(self, *_: object) -> None:
        self._blocked = True

    def _unblock(self, *_: object) -> None:
        self._blocked = False


def _say(name: str) -> None:
    log.warning(
        "%s: no answer for %g s about it; everybody waits. It may be an alarm (memory, disk), or too few of its"
        " replicas run",
        name,
        SLOW,
    )
