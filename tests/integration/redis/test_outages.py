"""What a Redis forgets or breaks by itself — scripts, connections, the process — costs no task and doubles none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker
from millgate.errors import BrokerUnavailable
from millgate.queues import Subscription
from support.builders import a_message, a_topic, some_messages
from support.ledger import Ledger
from support.redis import Admin, open_queue
from support.servers import Redis
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RedisBroker]


def under_load(
    server: Redis, queue: str, open_one: Open, trouble: Callable[[Admin], None]
) -> Ledger:
    """Run a load through some trouble on a server."""
    open_one(queue, server.url).setup()
    ledger = Ledger(lambda: open_one(queue, server.url))
    time.sleep(0.5)
    trouble(Admin(server.port))
    time.sleep(0.5)
    ledger.finish()
    assert len(ledger.accepted) > 100
    assert ledger.twice == []
    return ledger


def test_scripts_that_are_flushed_are_loaded_again(
    own_server: Redis, queue: str, open_one: Open
) -> None:
    def trouble(admin: Admin) -> None:
        for _ in range(20):
            admin("SCRIPT", "FLUSH")
            time.sleep(0.05)

    ledger = under_load(own_server, queue, open_one, trouble)
    assert not ledger.errors, "nobody noticed"


def test_killed_connections_are_made_again(own_server: Redis, queue: str, open_one: Open) -> None:
    def trouble(admin: Admin) -> None:
        for _ in range(20):
            admin("CLIENT", "KILL", "TYPE", "normal")
            time.sleep(0.05)

    ledger = under_load(own_server, queue, open_one, trouble)
    assert not ledger.errors, "nobody noticed"


def test_a_server_that_is_killed_and_comes_back_has_everything(
    own_server: Redis, queue: str, open_one: Open
) -> None:
    def trouble(admin: Admin) -> None:
        for _ in range(2):
            admin.kill()
            own_server.stop()
            time.sleep(0.3)
            own_server.start()
            time.sleep(0.7)

    ledger = under_load(own_server, queue, open_one, trouble)
    assert set(ledger.runs.values()) <= {1, 2}


def test_leases_that_lapsed_while_nobody_could_renew_are_given_time(
    own_server: Redis, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, own_server.url)
    broker.setup()
    broker.configure([a_topic(lease=2.0)])
    broker.publish([message := a_message()])
    hand = Hand(broker)
    claim = hand.one()
    Admin(own_server.port).freeze(7)
    other = Hand(open_queue(queue, own_server.url))
    assert other.claim(5) == [], "the owner lives: it renews first"
    hand.beat(claim)
    hand.ack(claim)
    assert broker.states([message.id])[0].state is State.SUCCEEDED
    other.broker.close()


def test_a_queue_whose_server_lost_its_data_is_made_again(
    own_server: Redis, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, own_server.url)
    broker.setup()
    broker.publish(some_messages(3))
    Admin(own_server.port)("FLUSHALL")
    broker.publish([a_message()])
    assert broker.stats().topics["default"].waiting == 1
    assert len(Hand(broker).claim(5)) == 1


def test_a_worker_waits_through_a_restart_and_hears_of_work_again(
    own_server: Redis, queue: str, open_one: Open
) -> None:
    waiter, broker = open_one(queue, own_server.url), open_one(queue, own_server.url)
    broker.setup()
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(waiter.wait_for_work(Subscription(), 15.0))
    )
    thread.start()
    time.sleep(0.2)
    own_server.stop()
    own_server.start()
    broker.publish([a_message()])
    thread.join(20)
    assert answers == [True]


class Crossed(list[Any]):
    """Spare connections of which the one that was given back last is taken last, as among many threads."""

    def append(self, item: Any) -> None:
        self.insert(0, item)


def test_a_send_is_held_back_whichever_connection_the_next_call_would_have(
    own_server: Redis, queue: str, open_one: Open
) -> None:
    Admin(own_server.port)("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    replica = Redis("--replicaof", "127.0.0.1", str(own_server.port))
    try:
        follows = Admin(replica.port)
        eventually(lambda: follows.info("master_link_status") == "up", timeout=20)
        broker = open_one(queue, f"{own_server.url}?replicas=1", deadline=2.0)
        broker.setup()
        two = [broker.pool.take(time.monotonic() + 2) for _ in range(2)]
        broker.pool._spare = Crossed()  # an order that only a race would bring about
        for connection in two:
            broker.pool.keep(connection)
        for _ in range(2):  # a busy machine may need longer than one deadline
            eventually(lambda: broker.publish([a_message()]), timeout=30)
        time.sleep(1.5)  # a replica says once a second how far it is
        frozen = threading.Thread(target=follows.freeze, args=(3.0,))
        frozen.start()
        time.sleep(0.2)
        with pytest.raises(BrokerUnavailable, match="0 of 1 replicas"):
            broker.publish([a_message()])
        frozen.join()
        broker.publish([a_message()])
    finally:
        replica.close()
