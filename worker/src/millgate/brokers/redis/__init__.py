"""Queues in Redis 6.2 or newer, or Valkey: `redis://`, `rediss://`, `redis+sentinel://`, Cluster with `?cluster=1`."""

from __future__ import annotations

from millgate.brokers.redis.broker import RedisBroker
from millgate.brokers.redis.url import parse
from millgate.clock import SystemClock
from millgate.settings import environment

__all__ = ["RedisBroker", "open"]


def open(url: str, queue: str, deadline: float) -> RedisBroker:  # noqa: A001 -- as every driver
    """The broker behind a URL; nothing is connected before the first verb. Raises InvalidSettings."""
    return RedisBroker(parse(url, queue, environment()), deadline, SystemClock())
