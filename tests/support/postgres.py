"""PostgreSQL as the conformance suite meets it: one server and database per session, one schema per test."""

from __future__ import annotations

import itertools
import os
from functools import cache
from pathlib import Path

from millgate.brokers import open_broker
from millgate.brokers.postgres import PostgresBroker
from support import servers
from support.clients import ServerVenue

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


class PostgresVenue(ServerVenue[PostgresBroker]):
    """A fresh schema."""

    def __init__(self, folder: Path) -> None:
        super().__init__(open_queue, fresh_queue(), database_url())
        self.client().setup()

    def close(self) -> None:
        """Close all clients and drop the schema, from under whoever was killed in the middle of a call."""
        super().close()
        orphans = (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE pid <> pg_backend_pid() AND query LIKE '%\"{self.queue}\"%'"
        )
        drop = f'DROP SCHEMA "{self.queue}" CASCADE'
        servers.postgres().run("-d", f"suite_{os.getpid()}", "-c", orphans, "-c", drop)
