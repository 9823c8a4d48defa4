"""What others do to a queue's objects on the server — delete them, write into them — loses nothing and stops nobody."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

import pika
import pytest

from millgate.brokers.base import State
from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.brokers.rabbitmq.lines import PROTOCOL
from millgate.brokers.rabbitmq.records import FORMAT, Entry, Kind
from support import servers
from support.builders import a_message, some_messages
from support.ledger import Ledger
from support.rabbitmq import Brokerd, raw
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
Load = Callable[..., Ledger]

JUNK = [b"", b"junk", b"MG" + bytes(30), b"MG\x01\x07" + bytes(30), bytes(300_000)]


def delete(name: str) -> None:
    """Remove a queue by hand."""
    with raw(servers.rabbitmq().url) as channel:
        channel.queue_delete(name)


def journal_of(queue: str) -> str:
    """The name of the journal in force: the youngest there is."""
    found = [name for name in servers.rabbitmq().queues() if f"millgate.{queue}.journal." in name]
    return max(found, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def test_an_inbox_that_is_deleted_under_load_is_made_again(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    serve()
    open_one(queue).setup()
    ledger = load()
    for _ in range(3):
        time.sleep(0.4)
        with raw(servers.rabbitmq().url) as channel, pytest.raises(pika.exceptions.AMQPError):
            channel.queue_delete(f"millgate.{queue}.calls")  # exclusive: nobody else may
    time.sleep(0.4)
    ledger.finish()
    assert not ledger.errors


@pytest.mark.parametrize("part", ["head", "journal"])
def test_a_stream_that_is_deleted_is_stored_anew_by_whoever_has_it_in_memory(
    queue: str, serve: Serve, open_one: Open, part: str
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.publish(messages := some_messages(20))
    hand = Hand(broker)
    claim = hand.one()
    delete(journal_of(queue) if part == "journal" else f"millgate.{queue}.head")
    eventually(lambda: broker.publish([a_message()]) and "anew" in brokerd.said(), timeout=20)
    enqueued = broker.stats().topics["default"].enqueued
    brokerd.end(signal.SIGKILL)
    brokerd.start()
    hand.ack(claim)
    row = broker.stats().topics["default"]
    assert (row.completed, row.enqueued) == (1, enqueued)
    assert broker.states([messages[-1].id])[0].state is State.WAITING
    kinds = [name.split(".")[-3] for name in servers.rabbitmq().queues() if f".{queue}." in name]
    assert kinds.count("journal") <= 2


def test_a_journal_that_is_deleted_while_nobody_has_it_in_memory_is_missed_by_name(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.publish([a_message()])
    brokerd.end(signal.SIGKILL)
    name = journal_of(queue)
    delete(name)
    brokerd.start()
    eventually(lambda: not brokerd.running)
    assert f"the stream {name}, which held a part of this queue, is gone" in brokerd.said()
    delete(f"millgate.{queue}.head")
    brokerd.start()
    broker.publish([a_message()])
    assert broker.stats().topics["default"].enqueued == 1


def test_what_somebody_else_puts_into_the_inbox_is_passed_over(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.setup()
    inbox = f"millgate.{queue}.calls"
    good = {"type": PROTOCOL, "app_id": "somebody", "correlation_id": "1"}
    forged = "amq.rabbitmq.reply-to.g1h2AAhyZXBseUA2MjA0NTYzAAAAAAAAAABmeA=="
    properties = [
        pika.BasicProperties(),
        pika.BasicProperties(type="something", reply_to="nobody"),
        pika.BasicProperties(**good),
        pika.BasicProperties(**good, reply_to="a.queue.of.others"),
        pika.BasicProperties(**good, reply_to="amq.rabbitmq.reply-to.nonsense"),
        pika.BasicProperties(**good, reply_to=forged),
        pika.BasicProperties(**{**good, "app_id": "x" * 200}, reply_to=forged),
        pika.BasicProperties(type="millgate-proof"),
        pika.BasicProperties(**good, reply_to=b"\xff\xfe"),
        pika.BasicProperties(**{**good, "app_id": b"\xff"}, reply_to=forged),
        pika.BasicProperties(**{**good, "correlation_id": b"\xff"}, reply_to=forged),
    ]
    calls = [b"\x94\x01\x01\xa5stats\x90", b"\x94\x01\x01\x91\x01\x90", b"\x94\xc0\xc0\xc0\xc0"]
    with raw(servers.rabbitmq().url) as channel:
        for one in properties:
            for body in [*JUNK, *(b"\x00" + call for call in calls)]:
                channel.basic_publish("", inbox, body, one)
    broker.publish([message := a_message()])
    assert broker.states([message.id])[0].state is State.WAITING
    assert "passing over" in brokerd.said()
    assert brokerd.said().count("serving") == 1, "its connection was not lost"


def test_what_somebody_else_puts_into_the_streams_is_passed_over(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.setup()
    streams = [f"millgate.{queue}.head", journal_of(queue)]
    with raw(servers.rabbitmq().url) as channel:
        for _ in range(2):
            for name in streams:
                for body in JUNK:
                    channel.basic_publish("", name, body)
            broker.publish(some_messages(3))
    brokerd.end(signal.SIGKILL)
    brokerd.start()
    assert broker.stats().topics["default"].waiting == 6
    assert "read" in brokerd.said()


def newer() -> bytes:
    """An entry as a newer program stores it."""
    entry = bytearray(Entry(Kind.LAST, 99, 1, b"").pack())
    entry[2] = FORMAT + 1
    return bytes(entry)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        pytest.param(newer(), f"stored in format {FORMAT + 1}", id="newer"),
        pytest.param(Entry(Kind.LAST, 99, 1, b"\xc1").pack(), "cannot be read", id="no head"),
    ],
)
def test_a_head_that_cannot_be_read_is_refused_and_not_taken_for_an_empty_queue(
    entry: bytes, complaint: str, queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.publish([a_message()])
    brokerd.end()
    with raw(servers.rabbitmq().url) as channel:
        channel.basic_publish("", f"millgate.{queue}.head", entry)
    brokerd.start()
    eventually(lambda: not brokerd.running)
    assert complaint in brokerd.said()


@pytest.mark.parametrize("part", ["calls", "head"])
def test_a_queue_of_another_kind_under_our_name_is_named(
    queue: str, serve: Serve, part: str
) -> None:
    name = f"millgate.{queue}.{part}"
    with raw(servers.rabbitmq().url) as channel:
        channel.queue_declare(name, durable=True)
    brokerd = serve()
    eventually(lambda: name in brokerd.said() and "something else has a name" in brokerd.said())
    assert "Traceback" not in brokerd.said()


def test_a_journal_that_the_server_has_cut_is_refused_and_not_taken_for_all(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue)
    broker.publish([a_message()])
    name = journal_of(queue)
    brokerd.end()
    entry = Entry(Kind.LAST, 1, 5, b"").pack()
    with raw(servers.rabbitmq().url) as channel:  # as a policy with max-age or max-length leaves it
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_publish("", name, entry)
    brokerd.start()
    eventually(lambda: not brokerd.running)
    assert "begins in the middle" in brokerd.said()
