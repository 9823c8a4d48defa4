"""What befalls a server — a crash, an alarm, a silence — costs no task, doubles none, and is said in time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from millgate.brokers.base import State
from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.errors import BrokerTimeout, BrokerUnavailable
from millgate.queues import Subscription
from support.builders import a_message, a_topic, some_messages
from support.ledger import Ledger
from support.rabbitmq import Brokerd, at
from support.servers import RabbitMQ
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
Load = Callable[..., Ledger]

ON_BOTH = {
    "test_a_server_that_is_killed_under_load_and_comes_back_has_everything",
    "test_nothing_is_lost_or_doubled_by_an_alarm_under_load",
    "test_a_client_that_comes_while_an_alarm_lasts_is_told_the_same",
    "test_a_server_that_stands_still_is_waited_for",
}


@contextmanager
def alarm(server: RabbitMQ) -> Iterator[None]:
    """The server has too little memory, by its own reckoning, and takes nothing from anybody who publishes."""
    server.ctl("set_vm_memory_high_watermark", "0.00001")
    try:
        yield
    finally:
        server.ctl("set_vm_memory_high_watermark", "0.6")


def test_a_server_that_is_killed_under_load_and_comes_back_has_everything(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    brokerd = serve(at(harmed))
    serve(at(harmed))
    # Claims whose answers are lost wait that long.
    open_one(queue, at(harmed)).configure([a_topic(lease=15.0)])
    ledger = load(at(harmed))
    for _ in range(2):
        time.sleep(1.0)
        harmed.restart()
    time.sleep(1.0)
    ledger.finish()
    assert len(ledger.accepted) > 30
    assert ledger.twice == []
    assert brokerd.running


def test_a_wait_and_a_lease_outlast_a_restart_of_the_server(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    serve(at(harmed))
    waiter, broker = open_one(queue, at(harmed), 30.0), open_one(queue, at(harmed), 30.0)
    broker.configure([a_topic(lease=8.0)])
    broker.publish([a_message()])
    hand = Hand(broker)
    claim = hand.one()
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(waiter.wait_for_work(Subscription(), 40.0))
    )
    thread.start()
    time.sleep(1.5)  # a stream of 3.10 whose node ends right after its making is never recovered
    harmed.restart()
    assert Hand(open_one(queue, at(harmed), 30.0)).claim(5) == [], "the owner lives"
    hand.ack(claim)
    broker.publish([a_message()])
    thread.join(40)
    assert answers == [True]


def test_while_an_alarm_lasts_calls_end_in_time_with_its_reason_and_work_afterwards(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    serve(at(harmed))
    broker = open_one(queue, at(harmed), 2.0)
    broker.configure([a_topic(lease=12.0)])  # rabbitmqctl takes its time
    broker.publish([a_message()])
    hand = Hand(broker)
    claim, claimed = hand.one(), time.monotonic()
    message = a_message()
    with alarm(harmed):
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(BrokerTimeout, match=r"takes no messages now .*memory"):
                broker.publish([message])
            assert time.monotonic() - began < 7
        time.sleep(max(0.0, claimed + 12.5 - time.monotonic()))
    eventually(lambda: broker.publish([message]))
    assert [claim.id for claim in Hand(broker).claim(5)] == [message.id], "leases were not counted"
    hand.ack(claim)
    assert broker.stats().topics["default"].enqueued == 2


def test_a_client_that_comes_while_an_alarm_lasts_is_told_the_same(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    serve(at(harmed))
    open_one(queue, at(harmed)).setup()
    with alarm(harmed):
        broker = open_one(queue, at(harmed), 2.0)
        with pytest.raises(BrokerTimeout, match=r"takes no messages now .*memory"):
            broker.publish([a_message()])
        assert broker.wait_for_work(Subscription(), 0.5) is False
    eventually(lambda: broker.publish([a_message()]))


def test_nothing_is_lost_or_doubled_by_an_alarm_under_load(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    serve(at(harmed))
    open_one(queue, at(harmed)).setup()
    ledger = load(at(harmed))
    for _ in range(2):
        time.sleep(0.5)
        with alarm(harmed):
            time.sleep(2.0)
    time.sleep(0.5)
    ledger.finish()
    assert len(ledger.accepted) > 30
    assert set(ledger.runs.values()) == {1}


def test_calls_that_were_given_up_under_an_alarm_do_not_pile_up_in_the_client(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    serve(at(harmed))
    open_one(queue, at(harmed)).publish([a_message()])  # served by now
    broker = open_one(queue, at(harmed), 0.5)
    big = [a_message(body=b"x" * 1_000_000)]
    with alarm(harmed):
        for _ in range(6):
            with pytest.raises(BrokerTimeout):
                broker.publish(big)
        wire = broker._dialer._wire
        assert wire is not None
        assert wire.connection._get_write_buffer_size() < 3_000_000


def test_a_brokerd_ends_on_request_while_an_alarm_lasts_and_another_begins(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve(at(harmed))
    broker = open_one(queue, at(harmed))
    broker.publish([message := a_message()])
    late = open_one(queue, at(harmed), 1.0)
    with alarm(harmed):
        with pytest.raises(BrokerUnavailable):
            late.publish([a_message()])  # brokerd is held up by what it wants to store
        brokerd.end()
        second = serve(at(harmed))
        time.sleep(1.0)
        assert second.running
    assert broker.states([message.id])[0].state is State.WAITING


def test_a_task_of_a_minute_outlasts_a_consumer_timeout_of_ten_seconds(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve(at(harmed))
    serve(at(harmed))  # reads along
    broker = open_one(queue, at(harmed))
    broker.configure([a_topic(lease=10.0)])
    broker.publish([message := a_message()])
    hand = Hand(broker)
    claim = hand.one()
    for _ in range(22):
        time.sleep(3.0)
        hand.beat(claim)
    hand.ack(claim)
    assert broker.states([message.id])[0].state is State.SUCCEEDED
    assert "lost" not in brokerd.said()
    assert harmed.ctl("environment").find("{consumer_timeout,10000}") > 0


def test_a_server_that_stands_still_is_waited_for(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    serve(at(harmed))
    broker = open_one(queue, at(harmed), 20.0)
    broker.configure([a_topic(lease=3.0)])
    broker.publish(some_messages(2))
    hand = Hand(broker)
    claim = hand.one()
    timer = threading.Timer(5.0, harmed.thaw)
    harmed.freeze()
    timer.start()
    began = time.monotonic()
    broker.publish([a_message()])
    assert 3 < time.monotonic() - began < 12
    timer.join()
    assert len(Hand(open_one(queue, at(harmed))).claim(5)) == 2, "the owner lives"
    hand.ack(claim)


def test_a_server_that_stands_still_longer_than_a_call_may_last_is_named(
    harmed: RabbitMQ, queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve(at(harmed))
    broker = open_one(queue, at(harmed), 1.0)
    broker.setup()
    harmed.freeze()
    try:
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable, match=f"127.0.0.1:{harmed.port}"):
            broker.publish([a_message()])
        assert time.monotonic() - began < 6
        brokerd.end(signal.SIGTERM)
    finally:
        harmed.thaw()
