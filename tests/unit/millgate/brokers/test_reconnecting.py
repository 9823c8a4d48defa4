"""A server that is away is asked at once, then ever more seldom, and not by all clients in step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millgate.brokers.base import Broker
from millgate.brokers.local import address
from millgate.brokers.local.broker import LocalBroker
from millgate.brokers.postgres import PostgresBroker
from millgate.brokers.postgres import url as postgres
from millgate.brokers.redis import RedisBroker
from millgate.brokers.redis import url as redis
from millgate.clock import Clock
from millgate.errors import BrokerUnavailable
from support.clock import NotingClock
from support.programs import free_port

DEADLINE = 20.0


def local(_: int, folder: Path, clock: Clock) -> Broker:
    place = address.parse(f"local://{folder}/none.sock", {"XDG_RUNTIME_DIR": str(folder)})
    return LocalBroker(place, "q", DEADLINE, clock)


def postgresql(port: int, _: Path, clock: Clock) -> Broker:
    target = postgres.parse(f"postgresql://u:p@127.0.0.1:{port}/d", "q", {})
    return PostgresBroker(target, DEADLINE, clock)


def redis_(port: int, _: Path, clock: Clock) -> Broker:
    return RedisBroker(redis.parse(f"redis://127.0.0.1:{port}", "q", {}), DEADLINE, clock)


MAKERS: dict[str, Callable[..., Broker]] = {
    "local": local,
    "postgres": postgresql,
    "redis": redis_,
}


def pauses(make: Callable[..., Broker], *place: Any) -> list[float]:
    """How long a client pauses between its attempts until its deadline."""
    clock = NotingClock()
    broker = make(*place, clock)
    with pytest.raises(BrokerUnavailable):
        broker.stats()
    broker.close()
    return clock.slept


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_pauses_grow_to_a_bound_and_are_each_clients_own(
    make: Callable[..., Broker], tmp_path: Path
) -> None:
    port = free_port()
    one, other = (pauses(make, port, tmp_path) for _ in range(2))
    for slept in (one, other):
        assert sum(slept) < DEADLINE + 0.01
        assert 10 < len(slept) < 60, "neither a spin nor a sleep until the deadline"
        assert sum(slept[:3]) < 0.5, "a short outage is soon over"
        assert all(0.5 <= pause <= 1.0 for pause in slept[6:-1]), "and a long one costs little"
    assert one != other
