"""Every broker as the conformance suite meets it: a fresh queue, clients of it, and a way to let time pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from millgate.brokers.base import Broker
from millgate.brokers.memory import MemoryBroker
from support import servers
from support.clock import FakeClock
from support.local import LocalVenue
from support.postgres import PostgresVenue
from support.rabbitmq import RabbitVenue
from support.redis import RedisVenue


class Venue(Protocol):
    """One fresh, prepared queue on one broker."""

    #: What `open_broker` takes in another process, with the queue's name; None: this queue lives in one process only.
    url: str | None
    queue: str

    def client(self) -> Broker:
        """Another client of this queue, as a second process would have it."""

    def pass_time(self, seconds: float) -> None:
        """Let the broker's clock go on by that much."""

    def close(self) -> None:
        """Close all clients and drop the queue."""


class MemoryVenue:
    """The memory broker, its clock turned by hand."""

    url: str | None = None
    queue = "millgate"

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.first = MemoryBroker(clock=self.clock)

    def client(self) -> MemoryBroker:
        return self.first.sibling()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def close(self) -> None:
        self.first.close()


#: Broker → makes a venue; the path is a folder of the test's own.
FACTORIES: dict[str, Callable[[Path], Venue]] = {
    "local": LocalVenue,
    "memory": MemoryVenue,
    "postgres": PostgresVenue,
    "rabbitmq": RabbitVenue,
    "rabbitmq4": functools.partial(RabbitVenue, choose=servers.rabbitmq4),
    "redis": RedisVenue,
    "valkey": functools.partial(RedisVenue, choose=servers.valkey),
}
#: Further servers, and versions of them: a part of the suite runs on them, and all of it when they are named.
NEWER = frozenset({"rabbitmq4", "valkey"})
