"""Queues in PostgreSQL 12 or newer: `postgresql://user:password@host/database?schema=…&pooler=…`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from millgate.brokers.postgres.broker import PostgresBroker
from millgate.brokers.postgres.connection import Spares
from millgate.brokers.postgres.url import parse
from millgate.clock import SystemClock
from millgate.settings import environment

__all__ = ["PostgresBroker", "open", "open_shared"]


def open(url: str, queue: str, deadline: float) -> PostgresBroker:  # noqa: A001 -- as every driver
    """The broker behind a URL; nothing is connected before the first verb. Raises InvalidSettings."""
    return PostgresBroker(parse(url, queue, environment()), deadline, SystemClock())


def open_shared(
    url: str, queue: str, deadline: float, shared: MutableMapping[Any, Any]
) -> PostgresBroker:
    """As `open`; all that are opened with the same `shared`, server and login take turns on the same connections."""
    broker = open(url, queue, deadline)
    target = broker.target
    place = ("postgres", target.conninfo, tuple(sorted(target.extra.items())), deadline)
    spares = shared.setdefault(place, Spares())
    broker.pool.share(spares)
    return broker
