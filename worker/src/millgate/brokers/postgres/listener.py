"""Being woken: one connection that listens, and a thread that tells those who wait."""

from __future__ import annotations

import os
import random
import select
import threading
from typing import Final

import psycopg

from millgate.brokers.postgres.bell import Bell
from millgate.brokers.postgres.connection import Connection, Pool
from millgate.errors import MillgateError

_LONGEST_PAUSE: Final = 2.0
_QUIET: Final = 20.0  # seconds of silence after which the connection is tried


class Listener:
    """Notifications for this process. `work` is readable after each that tells of work; waiters for results are told
    by `ended`, whose generation grows with each that tells of an end, and with every gap in listening."""

    def __init__(self, pool: Pool, schema: str) -> None:
        self._pool = pool
        self._schema = schema
        self.number = random.getrandbits(62)
        self.work = Bell()
        self.ended = threading.Condition()
        self.generation = 0
        #: Whether notifications arrive now; without, waiting is looking again and again.
        self.connected = False
        self._stop = Bell()
        self._thread: threading.Thread | None = None
        self._started = threading.Lock()
        self._ready = threading.Event()
        self._pid = os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether this belongs to the process that forked this one."""
        return self._pid != os.getpid()

    def start(self) -> None:
        """Begin to listen, unless a pooler is between (nothing would ever arrive); returns when it does, or cannot."""
        if self._pool.pooled:
            return
        with self._started:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="millgate-listen", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # there is none to be had: whoever waits looks again and again
                    return
                self._thread = thread
        self._ready.wait(self._pool.deadline)

    def close(self) -> None:
        """Stop listening."""
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            self._stop.ring()
            thread.join(5)

    def wait_ended(self, generation: int, timeout: float) -> None:
        """Wait until somebody's message has ended since `generation`, at most `timeout` seconds."""
        with self.ended:
            self.ended.wait_for(lambda: self.generation != generation, timeout)

    def tell(self) -> None:
        """Let everybody who waits look again."""
        self.work.ring()
        with self.ended:
            self.generation += 1
            self.ended.notify_all()

    def _run(self) -> None:
        pause, before = 0.1, False
        while not self._stopped(0):
            try:
                connection = self._listen()
            except (psycopg.Error, MillgateError, OSError):
                connection = None
            self._ready.set()
            if connection is not None:
                pause = 0.1
                self.connected = True
                if before:
                    self.tell()  # what was missed while nobody listened
                before = True
                self._follow(connection)
                self.connected = False
                connection.close()
                self.tell()
            if self._pool.pooled or self._stopped(random.uniform(pause / 2, pause)):  # noqa: S311
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _listen(self) -> Connection | None:
        connection = self._pool.open(self._pool.deadline)
        if connection.pooled:
            connection.close()
            return None
        try:
            connection.until = self._pool.clock.monotonic() + self._pool.deadline
            everybody = connection.execute(
                "SELECT %s::regclass::oid", [f'"{self._schema}".queue']
            ).fetchone()
            assert everybody is not None, "one row"
            connection.execute(f'LISTEN "millgate_{self.number:x}"')
            connection.execute(f'LISTEN "millgate_{everybody[0]}"')
        except BaseException:
            connection.close()
            raise
        return connection

    def _follow(self, connection: Connection) -> None:
        """Tell of notifications until the connection ends or we are stopped."""
        descriptor = connection.fileno()
        while True:
            readable, _, _ = select.select([descriptor, self._stop.fileno()], [], [], _QUIET)
            if self._stop.fileno() in readable:
                return
            try:
                if not readable:  # a peer that is gone without a word is found out
                    connection.until = self._pool.clock.monotonic() + self._pool.deadline
                    connection.execute("SELECT 1", prepare=False)
                connection.pgconn.consume_input()
            except (psycopg.Error, OSError):
                return
            while (notice := connection.pgconn.notifies()) is not None:
                if notice.extra == b"ended":
                    with self.ended:
                        self.generation += 1
                        self.ended.notify_all()
                else:
                    self.work.ring()

    def _stopped(self, timeout: float) -> bool:
        readable, _, _ = select.select([self._stop], [], [], timeout)
        return bool(readable)
