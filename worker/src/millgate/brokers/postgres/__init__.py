"""Queues in PostgreSQL 12 or newer: `postgresql://user:password@host/database?schema=…&pooler=…`."""

from __future__ import annotations

from millgate.brokers.postgres.broker import PostgresBroker
from millgate.brokers.postgres.url import parse
from millgate.clock import SystemClock
from millgate.settings import environment

__all__ = ["PostgresBroker", "open"]


def open(url: str, queue: str, deadline: float) -> PostgresBroker:  # noqa: A001 -- as every driver
    """The broker behind a URL; nothing is connected before the first verb. Raises InvalidSettings."""
    return PostgresBroker(parse(url, queue, environment()), deadline, SystemClock())
