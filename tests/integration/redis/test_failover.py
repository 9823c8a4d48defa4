"""Masters that die or step down and slots that move, under load: what the servers acknowledged and kept runs once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from millgate.brokers.redis import RedisBroker
from millgate.errors import AuthFailed, BrokerUnavailable
from support.builders import a_message
from support.faults import FaultProxy
from support.ledger import Ledger
from support.redis import Admin, fresh_queue
from support.redis_fleet import MASTER, Cluster, Watched
from support.servers import Redis
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RedisBroker]


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(3)
    yield made
    made.close()


def test_a_master_that_dies_is_replaced_under_load(
    watched: Watched, queue: str, open_one: Open
) -> None:
    url = f"{watched.url}?replicas=2"  # what is accepted is on every server
    open_one(queue, url).setup()
    ledger = Ledger(lambda: open_one(queue, url))
    time.sleep(1.0)
    old = watched.master
    old.kill()
    eventually(lambda: watched.master.port != old.port, timeout=20)
    time.sleep(0.2)
    # one server fewer: no publish could reach two replicas any more
    for server in watched.servers:
        if server.port == old.port:
            server.stop()
            server.start()
    ledger.finish(60)
    assert len(ledger.accepted) > 100
    assert ledger.gap < 15


def test_a_planned_switch_loses_nothing(watched: Watched, queue: str, open_one: Open) -> None:
    open_one(queue, watched.url).setup()
    ledger = Ledger(lambda: open_one(queue, watched.url))
    time.sleep(1.0)
    old = watched.master
    replica = next(s for s in watched.servers if s.port != old.port)
    old("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", 5000)
    time.sleep(3.0)
    ledger.finish(60)
    assert len(ledger.accepted) > 100
    assert ledger.twice == []
    assert ledger.gap < 4, "clients follow before the Sentinels do"


def test_a_name_that_points_to_the_new_master_is_followed(queue: str, open_one: Open) -> None:
    """No Sentinel: connections to the old master stay open, and it has become a replica."""
    old = Redis()
    new = Redis("--replicaof", "127.0.0.1", str(old.port))
    proxy = FaultProxy(("127.0.0.1", old.port))
    url = f"redis://127.0.0.1:{proxy.port}/0"
    try:
        eventually(lambda: Admin(new.port).info("master_link_status") == "up", timeout=20)
        open_one(queue, url).setup()
        ledger = Ledger(lambda: open_one(queue, url))
        for master, replica in ((old, new), (new, old)):  # and back
            time.sleep(1.0)
            Admin(master.port)("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", 5000)
            eventually(lambda: Admin(replica.port).info("role") == "master", timeout=10)  # noqa: B023
            proxy.redirect(("127.0.0.1", replica.port))
            time.sleep(2.0)
            assert Admin(master.port).info("role") == "slave"
        ledger.finish(60)
        assert len(ledger.accepted) > 100
        assert ledger.twice == []
        assert ledger.gap < 4
    finally:
        proxy.close()
        new.close()
        old.close()


def test_sentinels_that_do_not_know_the_master_are_said_so(
    watched: Watched, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, watched.url.replace(f"/{MASTER}/", "/nobody/"), 1.5)
    with pytest.raises(BrokerUnavailable, match="no Sentinel names a master for 'nobody'"):
        broker.setup()


def test_a_sentinel_that_wants_a_password_gets_its_own(queue: str, open_one: Open) -> None:
    guarded = Watched(replicas=0, sentinels=1, password="sentinels-own")
    try:
        for query in ("", "?sentinel_password=wrong-one"):
            with pytest.raises(AuthFailed) as caught:
                open_one(queue, f"{guarded.url}{query}").setup()
            assert "wrong-one" not in str(caught.value)
        broker = open_one(queue, f"{guarded.url}?sentinel_password=sentinels-own")
        broker.publish([message := a_message()])
        assert Hand(broker).one().id == message.id
    finally:
        guarded.close()


def test_a_cluster_is_found_from_any_node_with_or_without_being_told(
    cluster: Cluster, open_one: Open
) -> None:
    owners = set()
    for number in range(12):
        queue = fresh_queue()
        admin = cluster.admins[number % 3]
        broker = open_one(queue, f"redis://127.0.0.1:{admin.port}/0")
        broker.setup()
        broker.publish([message := a_message()])
        assert Hand(broker).one().id == message.id
        owners.add(cluster.owner_of(cluster.slot_of(queue)).port)
    assert len(owners) == 3, "queues are spread over the nodes"
    assert broker.server().detail["mode"] == "cluster"


def test_a_slot_that_moves_under_load_loses_and_doubles_nothing(
    cluster: Cluster, queue: str, open_one: Open
) -> None:
    open_one(queue, cluster.url).setup()
    ledger = Ledger(lambda: open_one(queue, cluster.url))
    slot = cluster.slot_of(queue)
    for _ in range(4):
        time.sleep(0.4)
        owner = cluster.owner_of(slot)
        cluster.move(slot, next(a for a in cluster.admins if a.port != owner.port))
    time.sleep(0.4)
    ledger.finish(60)
    assert len(ledger.accepted) > 200
    assert ledger.twice == []
    assert set(ledger.runs.values()) == {1}


def test_a_cluster_node_that_dies_is_replaced_by_its_replica(queue: str, open_one: Open) -> None:
    cluster = Cluster(3, replicas=True)
    try:
        url = f"{cluster.url}&replicas=1"
        open_one(queue, url).setup()
        ledger = Ledger(lambda: open_one(queue, url))
        time.sleep(1.0)
        slot = cluster.slot_of(queue)
        old = cluster.owner_of(slot)
        old.kill()
        eventually(lambda: _owner(cluster, old.port, slot) != old.port, timeout=30)
        for server, _ in cluster.nodes:
            if server.port == old.port:
                server.stop()
                server.start()
        ledger.finish(60)
        assert len(ledger.accepted) > 100
    finally:
        cluster.close()


def _owner(cluster: Cluster, dead: int, slot: int) -> int:
    admin = next(a for a in cluster.admins if a.port != dead)
    for low, high, master, *_ in admin("CLUSTER", "SLOTS"):
        if low <= slot <= high:
            return int(master[1])
    return dead
