"""What a server refuses is said in words that tell what to do, at once and without secrets; what must pass passes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import msgpack
import pytest

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker
from millgate.errors import (
    AuthFailed,
    BrokerRefused,
    BrokerUnavailable,
    ForeignPeer,
    InvalidSettings,
    PermissionMissing,
    QueueFull,
    SchemaTooNew,
    UnsafeServer,
)
from millgate.message import Group
from millgate.outcome import Reason
from millgate.queues import QueuePolicy, Subscription
from millgate.settlement import Bury, Charge, Later
from support.builders import a_message, a_topic, some_messages
from support.redis import Admin, open_queue
from support.servers import Redis
from support.working import A_FAILURE, Hand, ids

Open = Callable[..., RedisBroker]
_PAGE = Path(__file__).parents[3] / "docs/brokers.md"
#: The least rights, as the page states them.
RIGHTS = next(
    line.partition(" -@all ")[2]
    for line in _PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("ACL SETUSER mill on ")
)


def test_a_wrong_password_is_refused_at_once_and_not_repeated(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    admin("ACL", "SETUSER", "mill", "on", ">right", "~*", "+@all")
    client = open_one(queue, f"redis://mill:wrong-secret@127.0.0.1:{server.port}")
    begun = monotonic()
    with pytest.raises(AuthFailed, match="credentials") as caught:
        client.setup()
    assert monotonic() - begun < 5.0
    assert "wrong-secret" not in str(caught.value)
    admin("CONFIG", "SET", "requirepass", "p@ss:w/o#rd")
    with pytest.raises(AuthFailed, match="password"):
        open_one(queue, server.url).setup()
    open_one(queue, f"redis://:p%40ss%3Aw%2Fo%23rd@127.0.0.1:{server.port}/0").setup()


def test_names_and_passwords_may_have_any_character(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    user, password = "us@er:1/a", "p@ss:w/rd#1?x=%41&+ é"
    admin("ACL", "SETUSER", user, "on", f">{password}", "~*", "+@all")
    login = f"{quote(user, '')}:{quote(password, '')}"
    broker = open_one(queue, f"redis://{login}@127.0.0.1:{server.port}/0")
    broker.setup()
    broker.publish([message := a_message()])
    assert Hand(broker).one().id == message.id
    assert "p@ss" not in str(broker.server())


def test_the_least_rights_are_enough_for_everything(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    admin("ACL", "SETUSER", "mill", "on", ">pw", f"~mg:{{{queue}}}:*", "-@all", *RIGHTS.split())
    broker = open_one(queue, f"redis://mill:pw@127.0.0.1:{server.port}")
    broker.setup()
    exercise(broker)
    with pytest.raises(PermissionMissing, match="key"):
        open_one("elsewhere", f"redis://mill:pw@127.0.0.1:{server.port}").setup()


@pytest.mark.parametrize("right", ["rpush", "zpopmin", "hset", "smismember", "zmscore"])
def test_a_missing_right_is_named_by_setup(
    server: Redis, admin: Admin, queue: str, open_one: Open, right: str
) -> None:
    admin("ACL", "SETUSER", "mill", "on", ">pw", f"~mg:{{{queue}}}:*", "-@all", *RIGHTS.split())
    admin("ACL", "SETUSER", "mill", f"-{right}")
    with pytest.raises(PermissionMissing, match=rf"\+{right}\b"):
        open_one(queue, f"redis://mill:pw@127.0.0.1:{server.port}").setup()


def test_an_evicting_server_is_refused_by_the_name_of_the_setting(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    admin("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    begun = monotonic()
    with pytest.raises(UnsafeServer, match="maxmemory-policy noeviction"):
        open_one(queue, server.url).setup()
    assert monotonic() - begun < 5.0


def test_a_replica_is_refused(server: Redis, queue: str, open_one: Open) -> None:
    replica = Redis("--replicaof", "127.0.0.1", str(server.port))
    try:
        with pytest.raises(UnsafeServer, match="replica"):
            open_one(queue, replica.url).setup()
    finally:
        replica.close()


def test_a_server_that_becomes_a_replica_is_refused_after_the_deadline(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url, 1.0)
    broker.setup()
    admin("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises((UnsafeServer, BrokerUnavailable), match="replica"):
        broker.publish([a_message()])
    admin("REPLICAOF", "NO", "ONE")
    assert broker.publish([a_message()])


def test_a_server_without_memory_refuses_new_work_and_lets_the_old_end(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    broker.setup()
    hand = Hand(broker)
    first = some_messages(8)
    broker.publish(first)
    claims = hand.claim(6)
    admin("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(QueueFull, match="maxmemory"):
        broker.publish(some_messages(3))
    hand.beat(*claims)
    hand.ack(claims[0])
    hand.ack(claims[1], result=b"1")
    assert broker.settle([Later(claims[2].ref, 60.0, Charge.FAILURE, A_FAILURE)]) == ()
    assert broker.settle([Bury(claims[3].ref, Reason.FAILED, A_FAILURE)]) == ()
    assert broker.progress(claims[4].ref, b"half")
    assert len(broker.cancel([claims[5].id, first[6].id])) == 2
    assert len(hand.claim(1)) == 1
    broker.unregister(hand.worker)
    assert broker.purge("default") == 3
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.delayed, topic.leased, topic.enqueued) == (0, 0, 0, 8)
    admin("CONFIG", "SET", "maxmemory", "0")
    broker.publish([a_message()])


def test_a_foreign_key_of_our_name_is_named(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    admin("SET", f"mg:{{{queue}}}:leases", "somebody's")
    with pytest.raises(ForeignPeer, match="leases' is a string"):
        open_one(queue, server.url).setup()


def test_a_key_that_is_replaced_later_is_an_error_that_says_so(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    broker.setup()
    admin("SET", f"mg:{{{queue}}}:m", "somebody's")
    with pytest.raises(BrokerRefused, match="of another kind"):
        broker.publish([a_message()])


def test_a_newer_format_is_left_alone(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    broker.setup()
    broker.publish([a_message()])
    admin("SET", f"mg:{{{queue}}}:schema", "2")
    for verb in (broker.setup, broker.stats, lambda: broker.publish([a_message()])):
        with pytest.raises(SchemaTooNew, match="format 2"):
            verb()
    assert admin("HLEN", f"mg:{{{queue}}}:m") == 1


def test_what_listens_there_may_be_something_else(queue: str, open_one: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ForeignPeer, match="not Redis"):
            open_one(queue, f"redis://127.0.0.1:{listener.getsockname()[1]}").setup()
        thread.join(5)


def test_a_server_that_is_starting_is_waited_for(server: Redis, queue: str, open_one: Open) -> None:
    server.stop()
    broker = open_one(queue, server.url)
    thread = threading.Timer(0.5, server.start)
    thread.start()
    broker.setup()
    thread.join()


def test_a_script_of_somebody_that_hangs_is_waited_for(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    broker.setup()
    admin("CONFIG", "SET", "lua-time-limit", "100")

    def hang() -> None:
        with pytest.raises(Exception, match="kill"):
            admin("EVAL", "while true do end", "0")

    thread = threading.Thread(target=hang)
    thread.start()
    killer = threading.Timer(1.5, lambda: admin("SCRIPT", "KILL"))
    killer.start()
    broker.publish([a_message()])
    thread.join(10)
    killer.join()
    assert broker.stats().topics["default"].waiting == 1


def test_an_unreadable_message_is_buried_whole_and_hides_nothing(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    broker.setup()
    broker.publish([good := a_message()])
    prefix = f"mg:{{{queue}}}:"
    for name, body in (("junk", b"\xffjunk"), ("short", b"")):
        admin("HSET", f"{prefix}m", name, body)
        admin("ZADD", f"{prefix}q:1", 1, name)
    admin("ZADD", f"{prefix}q:1", 0, "nothing-behind-it")
    hand = Hand(broker)
    assert ids(hand.claim(5)) == [good.id]
    assert hand.claim(5) == []
    letter = broker.dead_letter("junk")
    assert letter is not None
    assert (letter.reason, letter.message, letter.raw) == (Reason.UNDECODABLE, None, b"\xffjunk")
    assert broker.states(["short"])[0].state is State.FAILED
    assert broker.replay(["junk"]) == []


def test_a_record_that_is_not_ours_reaches_its_worker_and_its_grave_whole(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    broker.setup()
    broker.publish([message := a_message()])
    key, body = f"mg:{{{queue}}}:m", msgpack.packb(["not", "ours"])
    row = admin("HGET", key, message.id)
    admin("HSET", key, message.id, row[: -len(message.record())] + body)
    hand = Hand(broker)
    hand.bury(hand.one(), reason=Reason.UNDECODABLE)
    letter = broker.dead_letter(message.id)
    assert letter is not None
    assert (letter.message, letter.raw) == (None, body)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost/one",
        "redis://localhost/0/1",
        "redis://localhost/0?colour=red",
        "redis://localhost/1?cluster=1",
        "redis://localhost:nine",
        "redis+sentinel://localhost:26379",
        "rediss://localhost?ca=/nowhere/ca.pem",
        "redis://user:pa#ss@localhost",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="redis"):
        open_queue("q", url)


def exercise(broker: RedisBroker) -> None:
    """Every verb, and most of what the scripts can do."""
    broker.configure(
        [
            a_topic("keyed", key_limit=1),
            a_topic("default", limit=50, lease=2.0),
            a_topic("other", reserve=1),
        ],
        QueuePolicy(limit=100, max_waiting=1000),
    )
    hand = Hand(broker)
    members, callback = some_messages(2), a_message()
    broker.publish(members, Group("g", tuple(ids(members)), callback))
    broker.publish([a_message(unique="u"), a_message(unique="w", unique_for=5.0)])
    broker.publish([a_message(delay=50), a_message(expires_in=50), *some_messages(5)])
    broker.publish([*some_messages(3, topic="keyed", key="k"), *some_messages(2, topic="other")])
    claims = hand.claim(9, "default", "keyed")
    broker.configure([a_topic("keyed", key_limit=2)])
    hand.ack(claims[0], result=b"1")
    hand.ack(*claims[1:3])
    hand.fail(claims[3])
    hand.bury(claims[4])
    hand.drop(claims[5])
    assert broker.progress(claims[6].ref, b"x")
    broker.cancel([claims[6].id, "nobody"])
    broker.requeue([claims[7].id])
    hand.beat(*claims[6:7], busy=1)
    broker.replay([claims[4].id])
    for state in (State.WAITING, State.DELAYED, State.RUNNING):
        broker.peek("default", state)
    broker.pause("default", True)
    broker.pause("default", False)
    broker.fence(hand.worker.name, 5)
    broker.unfence(hand.worker.name)
    lock = broker.acquire("l", "me", 5)
    assert lock is not None
    assert broker.renew("l", "me", lock.fence, 5)
    assert len(broker.locks()) == 1
    assert broker.release("l")
    assert broker.fire("s", 1.0, [a_message()])
    assert broker.schedules() == {"s": 1.0}
    hand.run_all()
    broker.wait([claims[0].id], 1)
    broker.wait(["nobody"], 0.1)
    assert broker.wait_for_work(Subscription(("default",)), 0.1) is False
    broker.dead()
    broker.purge("default")
    broker.purge_dead()
    broker.unregister(hand.worker)
    broker.stats()
    broker.server()
