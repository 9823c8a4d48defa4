"""Queues of each test's own, on the session's server or on one that the test may stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from millgate.brokers.redis import RedisBroker
from support import servers
from support.clients import Clients
from support.faults import FaultProxy
from support.redis import Admin, fresh_queue, open_queue
from support.servers import Redis

Open = Callable[..., RedisBroker]


@pytest.fixture
def open_one() -> Iterator[Open]:
    """Opens clients: of a queue by its name, at a URL; closed with the test."""
    with closing(Clients(open_queue)) as clients:
        yield clients


@pytest.fixture
def queue() -> str:
    """A name that nobody has used."""
    return fresh_queue()


@pytest.fixture
def broker(queue: str, open_one: Open) -> RedisBroker:
    """A client of a fresh queue."""
    made = open_one(queue)
    made.setup()
    return made


@pytest.fixture
def own_server() -> Iterator[Redis]:
    """A server that the test may stop, kill and reconfigure; it keeps what it was told."""
    server = Redis("--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.close()


@pytest.fixture
def server() -> Iterator[Redis]:
    """A server that the test may reconfigure."""
    made = Redis()
    yield made
    made.close()


@pytest.fixture
def admin(server: Redis) -> Admin:
    """Commands to that server."""
    return Admin(server.port)


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """Between clients and the session's server."""
    made = FaultProxy(("127.0.0.1", servers.redis().port))
    yield made
    made.close()


@pytest.fixture
def proxied_url(proxy: FaultProxy) -> str:
    """The session's server through the proxy."""
    return f"redis://127.0.0.1:{proxy.port}/0"
