"""A queue's owner as far as its streams are concerned: it writes calls into a journal, and what it wrote can be cut."""

from __future__ import annotations

import secrets
from typing import Any

from millgate.brokers.base import Ask
from millgate.brokers.rabbitmq.journal import Journal, write_snapshot
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.streams import Streams
from millgate.brokers.served import frames, values
from millgate.brokers.served.caller import Caller
from support.builders import a_worker, an_info, some_messages


class Owner:
    """Writes calls into a journal that is followed by another one soon."""

    def __init__(self, connection: Any, names: Names) -> None:
        self.streams = Streams(connection)
        self.journal = Journal(names, smallest=20_000)
        self.journal.take_over(self.streams)
        self.number = 0
        self._caller = Caller(secrets.token_hex(8), "queue")

    def publish(self, times: int) -> None:
        for _ in range(times):
            self._call("publish", values.from_messages(some_messages(20)), None)

    def claim(self, count: int) -> None:
        """Register a worker that claims so many."""
        worker = values.from_worker(a_worker())
        self._call("register", worker, values.from_info(an_info()))
        self._call("claim", worker, values.from_ask(Ask(n=count)), [])

    def _call(self, verb: str, *args: object) -> None:
        self.number += 1
        call = [self.number, self.number, verb, list(args)]
        engine = self.journal.replica.engine
        record = engine.record(float(self.number), self._caller, frames.pack(call))
        self.journal.append([record])
        engine.replay(record)

    def rotate(self) -> None:
        """Begin the next journal, its snapshot complete at once."""
        name = self.journal.rotate()  # its stream is there
        size = write_snapshot(
            self.streams, name, self.journal.head.term, self.journal.replica.engine.dump()
        )
        self.journal.written(name, size)


def restored(connection: Any, names: Names) -> bytes:
    """The state of a queue as one finds it that knows nothing but what is stored, and takes over."""
    again = Journal(names)
    again.take_over(Streams(connection))
    return again.replica.engine.dump()


def cut(streams: Streams, name: str, count: int) -> None:
    """Let a stream have lost all but its first entries."""
    kept = [entry for entry, _ in streams.read(name, count - 1)] if count else []
    streams.delete(name)
    streams.declare(name, only_newest=name.endswith(".head"))
    for entry in kept:
        streams.append(name, entry)
