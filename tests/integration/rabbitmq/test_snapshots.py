"""Journals that grow are followed by others and by snapshots of the state, whatever happens in the middle of that."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from millgate.brokers.rabbitmq.broker import RabbitBroker
from support import servers
from support.builders import some_messages
from support.ledger import Ledger
from support.rabbitmq import Brokerd
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]
Load = Callable[..., Ledger]

SMALL = 30_000  # bytes of a journal after which another begins


def streams_of(queue: str) -> list[str]:
    """The queue's streams by their kinds."""
    prefix = f"millgate.{queue}."
    names = [name.removeprefix(prefix) for name in servers.rabbitmq().queues() if prefix in name]
    return sorted(name.split(".")[0] for name in names if name != "calls")


def test_what_is_stored_does_not_grow_with_what_has_been(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    serve(smallest=SMALL)
    open_one(queue).setup()
    ledger = load()
    time.sleep(4.0)
    ledger.finish()
    assert len(ledger.accepted) > 100
    two = ["head", "journal", "journal", "snapshot", "snapshot"]  # this generation and the last
    eventually(lambda: streams_of(queue) == two, timeout=30)


def test_a_brokerd_that_is_killed_while_it_writes_a_snapshot_loses_nothing(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    brokerd = serve(smallest=SMALL)
    open_one(queue).setup()
    ledger = load()
    for pause in (0.31, 0.47, 0.23, 0.61, 0.37, 0.53, 0.29, 0.71):
        time.sleep(pause)
        brokerd.end(signal.SIGKILL)
        brokerd.start()
    ledger.finish()
    assert len(ledger.accepted) > 30
    assert ledger.twice == []
    broker = open_one(queue)

    def bounded() -> bool:
        """Once the generation after all those kills has been followed by the next."""
        broker.publish(some_messages(5, body=bytes(SMALL // 4)))
        return len(streams_of(queue)) <= 7

    eventually(bounded, timeout=30)


def test_a_stand_by_that_reads_along_follows_from_journal_to_journal(
    queue: str, serve: Serve, open_one: Open, load: Load
) -> None:
    brokerds = [serve(smallest=SMALL), serve(smallest=SMALL)]
    broker = open_one(queue)
    broker.setup()
    ledger = load()
    for _ in range(3):
        time.sleep(2.0)
        pid = broker.server().detail["pid"]
        owner = next(one for one in brokerds if one.pid == pid)
        owner.end(signal.SIGKILL)
        assert broker.server().detail["pid"] != pid
        owner.start()
    ledger.finish()
    assert ledger.twice == []
    assert set(ledger.runs.values()) == {1}


def test_a_snapshot_of_more_than_one_message_comes_back_whole(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve(smallest=SMALL)
    broker = open_one(queue, deadline=30.0)
    broker.setup()
    names = []
    for _ in range(12):
        messages = some_messages(10, body=b"s" * 100_000)
        broker.publish(messages)
        names += [message.id for message in messages]
    eventually(lambda: "snapshot" in streams_of(queue), timeout=30)
    broker.publish(some_messages(1))
    brokerd.end(signal.SIGKILL)
    brokerd.start()
    assert Hand(broker).run_all(batch=20)[:120] == names
