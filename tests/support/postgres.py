"""PostgreSQL as the conformance suite meets it: one server and database per session, one schema per test."""

from __future__ import annotations

import itertools
import os
import time
from functools import cache
from pathlib import Path

from millgate.brokers import open_broker
from millgate.brokers.postgres import PostgresBroker
from support import servers

_numbers = itertools.count(1)


@cache
def database_url() -> str:
    """The session's database."""
    return servers.postgres().create_database(f"suite_{os.getpid()}")


def fresh_queue() -> str:
    """A queue name that nobody has used; its schema is of the same name."""
    return f"t{os.getpid()}_{next(_numbers)}"


def open_queue(queue: str, url: str | None = None, deadline: float = 10.0) -> PostgresBroker:
    """A client of a queue."""
    broker = open_broker(url or database_url(), queue=queue, deadline=deadline)
    assert isinstance(broker, PostgresBroker)
    return broker


class PostgresVenue:
    """A fresh schema; time passes by itself."""

    def __init__(self, folder: Path) -> None:
        self.url: str | None = database_url()
        self.queue = fresh_queue()
        self._clients: list[PostgresBroker] = []
        self.client().setup()

    def client(self) -> PostgresBroker:
        """Another client of this queue."""
        broker = open_queue(self.queue)
        self._clients.append(broker)
        return broker

    def pass_time(self, seconds: float) -> None:
        """Wait: the server's clock cannot be turned."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close all clients and drop the schema."""
        for broker in self._clients:
            broker.close()
        servers.postgres().run(
            "-d", f"suite_{os.getpid()}", "-c", f'DROP SCHEMA "{self.queue}" CASCADE'
        )
