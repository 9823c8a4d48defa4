"""Three nodes of one cluster: one that dies or is cut off from the others costs a pause and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.errors import MillgateError
from support import rabbitmq_node
from support.builders import a_topic
from support.debian13 import Debian13
from support.ledger import Ledger
from support.rabbitmq import Brokerd
from support.servers import RabbitMQ
from support.wait import eventually

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
Load = Callable[..., Ledger]
pytestmark = [pytest.mark.xdist_group("rabbitmq-cluster"), pytest.mark.timeout(900)]
#: Seconds that nodes may take for what they agree upon: an election took 75 s on a busy machine.
PATIENCE = 180.0


@pytest.fixture(scope="module")
def nodes() -> Iterator[Sequence[RabbitMQ]]:
    """Of the newer version, which is the one that starts in seconds; partitions end the smaller side's service."""
    made = rabbitmq_node.cluster(
        3,
        "cluster_partition_handling = pause_minority",
        programs=Debian13(),
        erlang="-kernel net_ticktime 8",  # seconds after which a silent node counts as gone
    )
    yield made
    for node in reversed(made):
        node.close()


@pytest.fixture
def url(nodes: Sequence[RabbitMQ]) -> str:
    """All nodes."""
    places = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    return f"amqp://guest:guest@{places}/%2F?heartbeat=2&brokerd=never"


def node_of(nodes: Sequence[RabbitMQ], queue: str) -> RabbitMQ:
    """The node that the queue's brokerd is connected to, once it is to one of these."""

    def found() -> RabbitMQ | None:
        for node in nodes:
            listed = node.ctl("list_queues", "--local", "name", check=False).split()
            if f"millgate.{queue}.calls" in listed:
                return node
        return None

    return eventually(found, timeout=PATIENCE)  # type: ignore[return-value]


def served(
    broker: RabbitBroker, brokerds: Sequence[Brokerd], nodes: Sequence[RabbitMQ]
) -> RabbitBroker:
    """Wait until a brokerd serves the queue: its streams need nodes that have agreed upon their leaders.

    What all of them said tells why it does not.
    """

    def served() -> bool:
        broker.setup()
        return True

    with explained(brokerds, nodes):
        eventually(served, timeout=PATIENCE)
    return broker


@contextmanager
def explained(brokerds: Sequence[Brokerd], nodes: Sequence[RabbitMQ]) -> Iterator[None]:
    """What all of them said, beside an error within."""
    try:
        yield
    except (MillgateError, AssertionError) as error:
        said = "\n\n".join(one.said() for one in (*brokerds, *nodes))
        raise AssertionError(f"{error}\n{said}") from error


def goes_on(ledger: Ledger) -> None:
    """Wait until the load has run some more."""
    runs = len(ledger.runs)
    eventually(lambda: len(ledger.runs) > runs + 20, timeout=PATIENCE)


def whole(nodes: Sequence[RabbitMQ], queue: str) -> None:
    """Wait until every node has its part of every stream of a queue again."""

    def whole() -> bool:
        listed = nodes[0].ctl("list_queues", "name", "online", check=False).splitlines()
        mine = [line for line in listed if f"millgate.{queue}." in line and ".calls" not in line]
        return len(mine) >= 2 and all(line.count("millgate") == 1 + len(nodes) for line in mine)

    eventually(whole, timeout=PATIENCE)


def test_streams_are_on_every_node(
    nodes: Sequence[RabbitMQ], queue: str, serve: Serve, open_one: Open, url: str
) -> None:
    served(open_one(queue, url, 20.0), [serve(url)], nodes)
    whole(nodes, queue)


def test_a_node_that_dies_under_load_costs_nothing(
    nodes: Sequence[RabbitMQ], queue: str, serve: Serve, open_one: Open, load: Load, url: str
) -> None:
    brokerds = [serve(url), serve(url)]
    served(open_one(queue, url, 20.0), brokerds, nodes).configure([a_topic(lease=20.0)])
    ledger = load(url, 20.0)
    with explained(brokerds, nodes):
        for _ in range(2):
            whole(nodes, queue)  # else the node takes the majority along
            goes_on(ledger)
            node = node_of(nodes, queue)
            node.stop()
            goes_on(ledger)
            node.start()
        goes_on(ledger)
        ledger.finish(PATIENCE)
    assert ledger.twice == []
    assert ledger.gap < PATIENCE


def test_a_node_that_is_cut_off_from_the_others_serves_nobody_until_it_is_back(
    nodes: Sequence[RabbitMQ], queue: str, serve: Serve, open_one: Open, load: Load, url: str
) -> None:
    brokerds = [serve(url), serve(url)]
    served(open_one(queue, url, 20.0), brokerds, nodes).configure([a_topic(lease=25.0)])
    ledger = load(url, 20.0)
    whole(nodes, queue)
    goes_on(ledger)
    alone = node_of(nodes, queue)
    others = [node for node in nodes if node is not alone]
    alone.freeze()  # for longer than the others wait for it
    try:
        node_of(others, queue)
        goes_on(ledger)
    finally:
        alone.thaw()
    eventually(lambda: alone.name in others[0].ctl("cluster_status", check=False), timeout=PATIENCE)
    whole(nodes, queue)
    goes_on(ledger)
    with explained(brokerds, nodes):
        ledger.finish(PATIENCE)
    assert ledger.twice == []
    assert set(ledger.runs.values()) == {1}
