"""Queues of each test's own, on the session's server or on one that the test may stop, and their brokerds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.brokers.rabbitmq.connection import connect
from millgate.brokers.rabbitmq.url import parse
from millgate.clock import SystemClock
from support import servers
from support.clients import Clients
from support.debian13 import Debian13
from support.faults import FaultProxy
from support.ledger import Ledger
from support.rabbitmq import Brokerd, fresh_queue, open_queue
from support.servers import RabbitMQ

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
Load = Callable[..., Ledger]
#: Seconds after which a server closes the channel of whoever keeps a message without a word; looked at once a minute.
CONSUMER_TIMEOUT = 10


@pytest.fixture
def open_one() -> Iterator[Open]:
    """Opens clients: of a queue by its name, at a URL; closed with the test."""
    with closing(Clients(open_queue)) as clients:
        yield clients


@pytest.fixture
def connection() -> Iterator[Callable[..., Any]]:
    """Makes connections to the server; options of their URL may be given."""
    made: list[Any] = []
    clock = SystemClock()

    def make(query: str = "") -> Any:
        target = parse(f"{servers.rabbitmq().url}?{query}", {})
        made.append(connect(target, "test", clock, clock.monotonic() + 10))
        return made[-1]

    yield make
    for one in made:
        if one.is_open:
            one.close()


@pytest.fixture
def queue() -> str:
    """A name that nobody has used."""
    return fresh_queue()


@pytest.fixture
def serve(queue: str, tmp_path: Path) -> Iterator[Serve]:
    """Starts brokerds for the test's queue; ended with the test."""
    started: list[Brokerd] = []

    def serve(url: str | None = None, smallest: int | None = None) -> Brokerd:
        log = tmp_path / f"brokerd{len(started)}.log"
        started.append(Brokerd(queue, log, url, smallest))
        return started[-1]

    yield serve
    for brokerd in started:
        brokerd.close()


@pytest.fixture
def load(queue: str, open_one: Open) -> Iterator[Load]:
    """Puts load on the test's queue, at a URL, that ends with the test at the latest."""
    begun: list[Ledger] = []

    def load(url: str | None = None, deadline: float = 10.0) -> Ledger:
        begun.append(Ledger(lambda: open_one(queue, url, deadline)))
        return begun[-1]

    yield load
    for ledger in begun:
        ledger.stop()


@pytest.fixture
def broker(queue: str, serve: Serve, open_one: Open) -> RabbitBroker:
    """A client of a fresh queue that is served."""
    serve()
    made = open_one(queue)
    made.setup()
    return made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that their module names run on the server of Debian 13 as well."""
    if "harmed" in metafunc.fixturenames:
        both = metafunc.function.__name__ in getattr(metafunc.module, "ON_BOTH", ())
        versions = ["installed", "debian13"] if both else ["installed"]
        metafunc.parametrize("harmed", versions, indirect=True, scope="session")


@pytest.fixture(scope="session")
def harmed(request: pytest.FixtureRequest) -> Iterator[RabbitMQ]:
    """A server that tests may stop, kill, freeze and fill; each leaves it running as it was."""
    programs = Debian13() if request.param == "debian13" else None
    server = RabbitMQ(f"consumer_timeout = {CONSUMER_TIMEOUT * 1000}", programs=programs)
    yield server
    server.close()


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """Between clients or a brokerd and the session's server."""
    made = FaultProxy(("127.0.0.1", servers.rabbitmq().port))
    yield made
    made.close()
