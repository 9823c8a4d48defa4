"""Snapshots of what a brokerd knows, written beside its work by a copy of its process, over a connection of its own."""

from __future__ import annotations

import signal
from logging import getLogger
from typing import Final

from millgate.brokers.rabbitmq.connection import connect
from millgate.brokers.rabbitmq.journal import Journal, write_snapshot
from millgate.brokers.rabbitmq.streams import Streams
from millgate.brokers.rabbitmq.url import Target
from millgate.brokers.served.engine import Engine
from millgate.brokers.served.forked import Writer, fork
from millgate.clock import Clock

_CONNECT: Final = 10.0  # seconds for a connection to come about
_LONGEST: Final = 600  # seconds that writing one may take

log = getLogger("millgate.brokers.rabbitmq")


class Snapshots:
    """At most one is being written."""

    def __init__(self, journal: Journal, target: Target, clock: Clock) -> None:
        self._journal = journal
        self._target = target
        self._clock = clock
        self._writing: tuple[Writer, str] | None = None  # its process and name

    @property
    def writing(self) -> bool:
        """Whether one is on its way."""
        return self._writing is not None

    def consider(self, engine: Engine) -> None:
        """Begin one if the journal is long enough, or see whether the one on its way has come to its end."""
        if self._writing is not None:
            self._look_after(*self._writing)
        elif self._journal.due:
            self._begin(engine)

    def _begin(self, engine: Engine) -> None:
        name = self._journal.rotate()
        term, target, clock = self._journal.head.term, self._target, self._clock

        def write() -> int:
            signal.alarm(_LONGEST)
            data = engine.dump()  # no connection would live through this with a large state
            end = clock.monotonic() + _CONNECT
            connection = connect(target, f"millgate snapshot {name}", clock, end)
            size = write_snapshot(Streams(connection), name, term, data)
            connection.close()
            return size

        writer = fork(write)
        if writer is None:
            self._journal.written(name, None)
        else:
            self._writing = writer, name

    def _look_after(self, writer: Writer, name: str) -> None:
        if writer.running():
            return
        self._writing = None
        size = writer.end()
        if size is None:
            log.warning("the snapshot %s was not written; the journals go on", name)
        self._journal.written(name, size)
