"""Many queues on one server take turns on few connections, when whoever opens them asks for that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from weakref import WeakValueDictionary

import pytest

from millgate.brokers import open_broker
from millgate.brokers.postgres import PostgresBroker
from millgate.errors import BrokerUnavailable
from support import servers
from support.builders import a_message
from support.clients import Clients
from support.postgres import fresh_queue
from support.wait import eventually


@pytest.fixture
def shared() -> WeakValueDictionary[Any, Any]:
    return WeakValueDictionary()


@pytest.fixture(scope="module")
def database() -> str:
    """One that nobody else connects to."""
    return servers.postgres().create_database(f"sharing_{os.getpid()}")


@pytest.fixture
def open_shared(database: str, shared: WeakValueDictionary[Any, Any]) -> Iterator[Any]:
    def open_one(queue: str, url: str | None = None, deadline: float = 10.0) -> PostgresBroker:
        found = open_broker(url or database, queue=queue, deadline=deadline, shared=shared)
        assert isinstance(found, PostgresBroker)
        return found

    eventually(lambda: sessions() == 0)  # those of the test before
    with closing(Clients(open_one)) as clients:
        yield clients


def sessions() -> int:
    name = f"sharing_{os.getpid()}"
    query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    return int(servers.postgres().run("-tAc", query))


def test_looking_at_many_queues_takes_as_many_connections_as_looking_at_one(
    open_shared: Any,
) -> None:
    brokers = [open_shared(fresh_queue()) for _ in range(12)]
    for broker in brokers:
        broker.setup()
    for broker in brokers:
        broker.stats()
    assert sessions() == 1


def test_a_connection_serves_each_queue_with_its_own_statements(open_shared: Any) -> None:
    one, other = open_shared(fresh_queue()), open_shared(fresh_queue())
    for broker in (one, other):
        broker.setup()
    for broker in (one, other, one):
        broker.publish([a_message()])
    counts = [broker.stats().topics["default"].waiting for broker in (one, other)]
    assert counts == [2, 1]


def test_the_connections_end_with_the_last_queue(open_shared: Any) -> None:
    one, other = open_shared(fresh_queue()), open_shared(fresh_queue())
    one.setup()
    one.close()
    one.close()  # counts once
    with pytest.raises(BrokerUnavailable, match="closed"):
        one.stats()
    other.setup()
    assert sessions() == 1
    other.close()
    eventually(lambda: sessions() == 0)


def test_other_deadlines_have_connections_of_their_own(
    open_shared: Any, shared: WeakValueDictionary[Any, Any]
) -> None:
    brokers = [open_shared(fresh_queue(), deadline=seconds) for seconds in (10.0, 10.0, 5.0)]
    for broker in brokers:
        broker.setup()
    assert len(shared) == 2
    assert sessions() == 2
