"""Queues of each test's own, on the session's server or on one that the test may stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from millgate.brokers.postgres import PostgresBroker
from support.clients import Clients
from support.faults import FaultProxy
from support.postgres import database_url, fresh_queue, open_queue
from support.servers import Postgres

Open = Callable[..., PostgresBroker]


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
def broker(queue: str, open_one: Open) -> PostgresBroker:
    """A client of a fresh queue."""
    made = open_one(queue)
    made.setup()
    return made


@pytest.fixture
def own_server() -> Iterator[Postgres]:
    """A server that the test may stop, kill and reconfigure."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """Between clients and the session's server."""
    from support import servers

    made = FaultProxy(("127.0.0.1", servers.postgres().port))
    yield made
    made.close()


@pytest.fixture
def proxied_url(proxy: FaultProxy) -> str:
    """The session's database through the proxy; statements are sent whole, so that a fault can find its verb."""
    url = database_url()
    head, _, tail = url.rpartition("@")
    return f"{head}@127.0.0.1:{proxy.port}/{tail.rpartition('/')[2]}?pooler=transaction"
