"""States that a server comes into — too old, loading, without replicas or snapshots — are told and survived."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from millgate.brokers.redis import RedisBroker
from millgate.errors import BrokerRefused, BrokerUnavailable, VersionUnsupported
from millgate.message import Group
from support.builders import a_message, some_messages
from support.debian13 import Debian13
from support.redis import Admin
from support.servers import Redis
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RedisBroker]


def test_a_server_that_is_too_old_is_refused_with_its_version(queue: str, open_one: Open) -> None:
    info = (
        b"# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\nrole:master\r\nloading:0\r\n"
    )
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer, suppress(OSError):
                while request := peer.recv(1000):
                    asked.append(request)
                    peer.sendall(b"$%d\r\n%s\r\n" % (len(info), info))

        thread = threading.Thread(target=answer)
        thread.start()
        began = monotonic()
        with pytest.raises(VersionUnsupported, match=r"Redis 6\.0\.16; 6\.2 or newer"):
            open_one(queue, f"redis://127.0.0.1:{listener.getsockname()[1]}").setup()
        assert monotonic() - began < 5.0
        thread.join(5)
    assert len(asked) == 1, "nothing was stored, and nothing repeated"


def test_a_database_that_is_not_there_is_refused(server: Redis, queue: str, open_one: Open) -> None:
    with pytest.raises(BrokerRefused, match="that database does not exist"):
        open_one(queue, f"redis://127.0.0.1:{server.port}/99").setup()


@pytest.fixture
def slow() -> Iterator[Redis]:
    """A server that takes its time to load what it saved, and answers meanwhile."""
    made = Redis("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    yield made
    made.close()


def test_a_server_that_is_loading_is_waited_for_within_the_deadline(
    slow: Redis, queue: str, open_one: Open
) -> None:
    admin = Admin(slow.port)
    broker = open_one(queue, slow.url)
    broker.setup()
    broker.publish([message := a_message()])
    for start in range(0, 2000, 100):
        pairs = [part for number in range(start, start + 100) for part in (f"x{number}", "x" * 64)]
        admin("MSET", *pairs)
    admin("SAVE")
    slow.stop()
    slow.start()
    assert admin.info("loading") == "1"

    def told() -> bool:
        try:
            open_one(queue, slow.url, 0.3).stats()
        except BrokerUnavailable as error:  # a busy machine may have no answer in so short a time
            return "loading its data" in str(error)
        return False

    eventually(told, timeout=10)
    assert Hand(broker).one().id == message.id
    assert admin.info("loading") == "0"


def test_a_server_with_too_few_replicas_stores_nothing_until_it_has_them(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url, 1.0)
    broker.setup()
    hand = Hand(broker)
    broker.publish([a_message()])
    claim = hand.one()
    admin("CONFIG", "SET", "min-replicas-to-write", 1)
    for call in (lambda: broker.publish(some_messages(2)), lambda: hand.ack(claim)):
        began = monotonic()
        with pytest.raises(BrokerUnavailable, match="min-replicas-to-write"):
            call()
        assert monotonic() - began < 5.0
    admin("CONFIG", "SET", "min-replicas-to-write", 0)
    hand.ack(claim)
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.leased, topic.completed, topic.enqueued) == (0, 0, 1, 1)


def test_a_server_that_cannot_write_its_snapshot_stores_nothing_until_it_can(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url, 1.0)
    broker.setup()
    name = admin("CONFIG", "GET", "dbfilename")[1].decode()
    admin("CONFIG", "SET", "save", "3600 1000000")
    folder = admin("CONFIG", "GET", "dir")[1].decode()
    in_its_place = Path(folder) / name
    in_its_place.mkdir()  # where a folder stands, no file can
    admin("BGSAVE")
    eventually(lambda: admin.info("rdb_last_bgsave_status") == "err")
    began = monotonic()
    with pytest.raises(BrokerUnavailable, match="its snapshot failed"):
        broker.publish([a_message()])
    assert monotonic() - began < 5.0
    assert broker.pool.health is not None, "it is the server's state, not a lost connection"
    admin("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
    broker.publish([a_message()])
    assert broker.stats().topics["default"].enqueued == 1
    in_its_place.rmdir()  # or it would refuse to end without its snapshot


@pytest.fixture(params=["redis", "valkey"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Redis, Admin]]:
    """A master and its replica, linked and silent: what comes from the master is what somebody wrote."""
    programs = Debian13("valkey-server") if request.param == "valkey" else None
    quiet = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600")
    master = Redis(*quiet, programs=programs)
    made = Redis("--replicaof", "127.0.0.1", str(master.port), programs=programs)
    follows = Admin(made.port)
    eventually(lambda: follows.info("master_link_status") == "up", timeout=20)
    yield master, follows
    made.close()
    master.close()


def test_a_repeat_is_held_back_as_the_first_call_was(
    pair: tuple[Redis, Admin], queue: str, open_one: Open
) -> None:
    """A WAIT answers for what its own connection wrote, on newer servers, and a repeat comes by another one."""
    master, replica = pair
    url = f"{master.url}?replicas=1"
    open_one(queue, url).publish([a_message()])
    frozen = threading.Thread(target=replica.freeze, args=(4.0,))
    frozen.start()
    time.sleep(0.2)
    message = a_message()
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            open_one(queue, url, 1.0).publish([message])
    frozen.join()
    assert open_one(queue, url).publish([message])[0].duplicate


def test_whatever_stores_nothing_writes_something_for_replicas_to_have(
    pair: tuple[Redis, Admin], queue: str, open_one: Open
) -> None:
    master, _ = pair
    admin, broker = Admin(master.port), open_one(queue, master.url)
    one, batch = a_message(), some_messages(3)
    group = Group("g", tuple(message.id for message in batch), a_message())
    calls: list[Callable[[], object]] = [
        lambda: broker.publish([one]),
        lambda: broker.publish([one, one]),
        lambda: broker.publish(batch, group),
        lambda: broker.fire("daily", 1.0, [one]),
    ]
    for call in calls:
        call()
    for call in calls:
        written = int(admin.info("master_repl_offset"))
        call()
        assert int(admin.info("master_repl_offset")) > written
    assert broker.stats().topics["default"].waiting == 4
