"""A queue's owner as far as its streams are concerned: it writes calls into a journal, and what it wrote can be cut."""

from __future__ import annotations

from typing import Any

from millgate.brokers.rabbitmq.journal import Journal, write_snapshot
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.streams import Streams
from millgate.brokers.served import frames, values
from millgate.brokers.served.caller import Caller
from support.builders import some_messages

_CALLER = Caller("client", "queue")


class Owner:
    """Writes calls into a journal that is followed by another one soon."""

    def __init__(self, connection: Any, names: Names) -> None:
        self.streams = Streams(connection)
        self.journal = Journal(names, smallest=20_000)
        self.journal.take_over(self.streams)
        self.number = 0

    def publish(self, times: int) -> None:
        engine = self.journal.replica.engine
        for _ in range(times):
            self.number += 1
            call = [
                self.number,
                self.number,
                "publish",
                [values.from_messages(some_messages(20)), None],
            ]
            record = engine.record(float(self.number), _CALLER, frames.pack(call))
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
