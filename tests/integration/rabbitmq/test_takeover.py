"""A brokerd that dies, freezes or is cut off is followed by another: what was acknowledged is there, once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from millgate.brokers.base import State
from millgate.brokers.rabbitmq.broker import RabbitBroker
from support import servers
from support.builders import a_message, a_topic, some_messages
from support.faults import FaultProxy
from support.ledger import Ledger
from support.rabbitmq import Brokerd, at
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
Load = Callable[..., Ledger]


def pid_of(broker: RabbitBroker) -> int:
    """Of the brokerd that answers."""
    return int(broker.server().detail["pid"])


def balanced(ledger: Ledger, least: int = 30) -> None:
    """End a load: all that was accepted has run, and what was acknowledged once only."""
    ledger.finish()
    assert len(ledger.accepted) > least
    assert ledger.twice == []


def test_a_brokerd_that_is_killed_under_load_is_followed_by_one_that_knows_everything(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    brokerd = serve()
    serve()
    open_one(queue).setup()
    ledger = load()
    for _ in range(4):
        time.sleep(0.7)
        brokerd.end(signal.SIGKILL)
        brokerd.start()
    time.sleep(0.5)
    balanced(ledger)
    assert ledger.gap < 5


def test_what_is_lost_on_the_way_to_a_killed_brokerd_is_asked_again_by_itself(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.setup()
    brokerd.freeze()  # its inbox fills, and is gone with it
    pid = os.fork()
    if not pid:
        time.sleep(0.5)
        os.kill(brokerd.pid, signal.SIGKILL)
        os._exit(0)
    serve()
    broker.publish([message := a_message()])
    os.waitpid(pid, 0)
    assert broker.states([message.id])[0].state is State.WAITING


def test_a_frozen_brokerd_is_replaced_and_what_it_does_afterwards_is_void(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    url = at(servers.rabbitmq(), "heartbeat=1")
    first = serve(url)
    broker = open_one(queue, f"{url}&brokerd=never", 20.0)
    broker.setup()
    second = serve(url)
    eventually(lambda: "waiting" in second.said())
    broker.publish(some_messages(3))
    first.freeze()
    broker.publish([message := a_message()])  # waits for the other
    assert pid_of(broker) == second.pid
    ledger = load(f"{url}&brokerd=never")
    first.thaw()
    eventually(lambda: "another process serves" in first.said())
    assert broker.states([message.id])[0].state is not State.UNKNOWN
    assert pid_of(broker) == second.pid
    assert first.running, "it stands by"
    second.end(signal.SIGKILL)
    assert pid_of(broker) == first.pid
    balanced(ledger)
    assert broker.stats().topics["default"].completed == len(ledger.accepted) + 4


def test_a_brokerd_that_was_frozen_in_the_middle_of_its_work_hands_out_nothing_twice(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    url = at(servers.rabbitmq(), "heartbeat=1")
    brokerds = [serve(url), serve(url)]
    broker = open_one(queue, f"{url}&brokerd=never", 20.0)
    broker.setup()
    broker.configure([a_topic(lease=60.0)])
    ledger = load(f"{url}&brokerd=never", 20.0)
    for _ in range(3):
        time.sleep(0.5)
        owner = next(one for one in brokerds if one.pid == pid_of(broker))
        owner.freeze()
        eventually(lambda pid=owner.pid: pid_of(broker) != pid, timeout=20)
        owner.thaw()
    balanced(ledger)
    assert set(ledger.runs.values()) == {1}
    assert all(brokerd.running for brokerd in brokerds)


def test_an_owner_that_was_frozen_believes_of_what_ended_meanwhile_what_the_next_one_does(
    queue: str, serve: Serve, open_one: Open
) -> None:
    url = at(servers.rabbitmq(), "heartbeat=1")
    first = serve(url)
    broker = open_one(queue, f"{url}&brokerd=never", 20.0)
    broker.configure([a_topic(lease=4.0)])
    second = serve(url)
    eventually(lambda: "waiting" in second.said())
    broker.publish(some_messages(3))
    hand = Hand(broker)
    claim = hand.one()
    first.freeze()
    end = time.monotonic() + 5.0  # longer than the lease
    while pid_of(broker) != second.pid or time.monotonic() < end:
        hand.beat(claim)
        time.sleep(0.2)
    first.thaw()
    eventually(lambda: "another process serves" in first.said())
    for _ in range(5):  # it is read along what becomes of the others
        hand.beat(claim)
        time.sleep(0.2)
    other = hand.one()
    second.end(signal.SIGKILL)
    assert pid_of(broker) == first.pid
    hand.beat(claim, other)
    hand.ack(claim, other)
    assert len(hand.run_all()) == 1


def test_a_brokerd_that_was_frozen_and_not_replaced_ends_no_lease(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.configure([a_topic(lease=2.0)])
    hand = Hand(broker)
    broker.publish([a_message()])
    claim, lock = hand.one(), broker.acquire("lock", "holder", 2.0)
    brokerd.freeze()
    time.sleep(4.0)
    brokerd.thaw()
    hand.beat(claim)
    assert lock is not None
    assert broker.renew("lock", "holder", lock.fence, 2.0)


def test_of_several_that_start_together_one_serves(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerds = [serve() for _ in range(4)]
    broker = open_one(queue)
    broker.setup()
    eventually(lambda: sum("waiting" in one.said() for one in brokerds) == 3)
    assert sum("serving" in one.said() for one in brokerds) == 1
    broker.publish(some_messages(5))
    for left in (3, 2, 1):
        owner = next(one for one in brokerds if one.pid == pid_of(broker))
        owner.end(signal.SIGKILL)
        brokerds.remove(owner)
        assert broker.stats().topics["default"].waiting == 5
        assert len(brokerds) == left


def test_a_brokerd_that_ends_on_request_leaves_everything(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.setup()
    broker.publish(messages := some_messages(3))
    hand = Hand(broker)
    claim = hand.one()
    brokerd.end()
    brokerd.start()
    hand.ack(claim)
    assert hand.run_all() == [message.id for message in messages[1:]]


def test_connections_that_the_server_closes_are_made_again(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    server = servers.rabbitmq()
    brokerd = serve()
    open_one(queue).setup()
    ledger = load()
    time.sleep(0.5)
    names = f"millgate {queue}", f"millgate brokerd {queue}"
    listed = server.ctl("list_connections", "pid", "client_properties").splitlines()
    mine = [line.split("\t")[0] for line in listed if any(f'"{name}"' in line for name in names)]
    assert len(mine) == 6
    for pid in mine:
        server.ctl("close_connection", pid, "a test")
    time.sleep(0.5)
    balanced(ledger)
    assert "a test" in brokerd.said()
    assert not ledger.errors, "nobody noticed"


def test_a_brokerd_that_is_cut_off_comes_back_and_goes_on_from_what_it_knows(
    queue: str, serve: Serve, open_one: Open, load: Load, proxy: FaultProxy
) -> None:
    brokerd = serve(at(proxy, "heartbeat=2"))
    open_one(queue).configure([a_topic(lease=10.0)])  # for claims whose answers are lost
    ledger = load()
    for reset in (False, True, False, True):
        time.sleep(0.4)
        proxy.cut(reset=reset)
    time.sleep(0.5)
    proxy.drop()  # silence on both sides: it must notice by itself
    time.sleep(6)
    proxy.heal()
    balanced(ledger)
    assert "read" not in brokerd.said(), "it had everything"
    assert set(ledger.runs.values()) == {1}
