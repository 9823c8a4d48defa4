"""Redis as the conformance suite meets it: one server per session, one key prefix per test."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from millgate.brokers import open_broker
from millgate.brokers.redis import RedisBroker
from support import servers

_numbers = itertools.count(1)


def fresh_queue() -> str:
    """A queue name that nobody has used."""
    return f"t{os.getpid()}.{next(_numbers)}"


def open_queue(queue: str, url: str | None = None, deadline: float = 10.0) -> RedisBroker:
    """A client of a queue."""
    broker = open_broker(url or servers.redis().url, queue=queue, deadline=deadline)
    assert isinstance(broker, RedisBroker)
    return broker


class RedisVenue:
    """A fresh prefix; time passes by itself."""

    def __init__(self, folder: Path) -> None:
        self.url: str | None = servers.redis().url
        self.queue = fresh_queue()
        self._clients: list[RedisBroker] = []
        self.client().setup()

    def client(self) -> RedisBroker:
        """Another client of this queue."""
        broker = open_queue(self.queue)
        self._clients.append(broker)
        return broker

    def pass_time(self, seconds: float) -> None:
        """Wait: the server's clock cannot be turned."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close all clients; the keys go with the server."""
        for broker in self._clients:
            broker.close()
