"""Calls on their way: many threads' over one connection, and more of them than a brokerd can take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pika

from millgate.brokers.base import State
from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.errors import MillgateError
from millgate.message import Claim
from support import servers
from support.builders import a_message, a_topic
from support.faults import FaultProxy
from support.rabbitmq import Brokerd, at, raw
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
LARGE = 3_000_000  # bytes: no socket takes them at once


def test_large_calls_of_many_threads_over_one_connection_do_not_mix(broker: RabbitBroker) -> None:
    broker.configure([a_topic(payload_max=2 * LARGE)])
    sent = {f"large-{number}": bytes([number]) * LARGE for number in range(6)}
    problems: list[MillgateError] = []

    def send(name: str, body: bytes) -> None:
        try:
            for _ in range(20):
                broker.stats()
            broker.publish([a_message(id=name, body=body)])
        except MillgateError as error:
            problems.append(error)

    threads = [threading.Thread(target=send, args=one) for one in sent.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    peeked = broker.peek("default", State.WAITING, 10)
    assert {one.id: one.message.body for one in peeked if one.message is not None} == sent


def test_an_answer_that_is_long_in_coming_is_waited_for_and_what_comes_behind_it_too(
    broker: RabbitBroker, queue: str, open_one: Open, proxy: FaultProxy
) -> None:
    broker.configure([a_topic(payload_max=2 * LARGE)])
    broker.publish([a_message(body=b"x" * LARGE) for _ in range(8)])
    slow = open_one(queue, at(proxy), 40.0)
    hand = Hand(slow)
    proxy.pace = LARGE * 2.5  # so that no call is given up before a good part of it has come
    claims: list[Claim] = []
    claiming = threading.Thread(target=lambda: claims.extend(hand.claim(8)))
    claiming.start()
    while claiming.is_alive():
        hand.beat()
    claiming.join()
    assert len(claims) == 8


def test_a_call_that_is_long_on_its_way_is_not_broken_off_for_those_behind_it(
    broker: RabbitBroker, queue: str, open_one: Open, proxy: FaultProxy
) -> None:
    broker.configure([a_topic(payload_max=2 * LARGE)])
    slow = open_one(queue, at(proxy), 40.0)
    proxy.pace = LARGE * 2.5
    slow.stats()
    messages = [a_message(body=b"x" * LARGE) for _ in range(8)]
    sending = threading.Thread(target=slow.publish, args=(messages,))
    sending.start()
    while sending.is_alive():
        slow.stats()
    assert broker.stats().topics["default"].waiting == 8


def test_what_comes_while_a_brokerd_stands_still_waits_with_the_server_and_is_void_in_time(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.setup()
    brokerd.freeze()
    strange = pika.BasicProperties(type="strange", expiration="300")
    with raw(servers.rabbitmq().url) as channel:
        for _ in range(1000):
            channel.basic_publish("", f"millgate.{queue}.calls", b"", strange)
    time.sleep(0.5)  # longer than anybody waits for an answer to these
    brokerd.thaw()
    assert broker.stats() is not None
    passed = brokerd.said().count("passing over a message")
    assert 0 < passed <= 200, "twice what it asks for: what it had, and what it was sent for that"
    eventually(lambda: brokerd.said().count("passing over a message") == passed)


def test_what_comes_past_the_driver_tells_it_that_the_server_lives(broker: RabbitBroker) -> None:
    broker.stats()
    connection = broker._dialer._wire.connection
    for _ in range(3):  # in that time the server sends no sign of life: it sends something else
        before = connection.bytes_received, connection.bytes_sent
        broker.stats()
        assert connection.bytes_received > before[0]
        assert connection.bytes_sent > before[1]
