"""What a queue costs the server: so much for each task that waits, nothing for ended ones, little when idle."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker
from millgate.message import Claim, Group
from millgate.queues import DeadPolicy, Ordering, Subscription
from millgate.settlement import Ack
from support import servers
from support.bench import Bench
from support.builders import a_message, a_topic, some_messages
from support.redis import Admin, RedisVenue
from support.servers import Redis
from support.wait import eventually
from support.working import Hand, ids

Open = Callable[..., RedisBroker]
#: What a queue has for as long as it is there, whatever has gone through it: by its topics, workers and schedules.
LASTING = re.compile(r"schema|g|tn|cf|ws|cron|cronc|gv|t:\d+|w:[\w.-]+|bells|bv|sub:\w+|bell:\S+")
#: … and tables that are never empty, so that they stay tables.
TABLES = re.compile(r"L|u|kl:\d+")
WAITING = 40_000
RECORD = 281  # bytes


@pytest.fixture
def server() -> Iterator[Redis]:
    """A server with nothing else on it."""
    made = Redis()
    yield made
    made.close()


def left(admin: Admin, broker: RedisBroker) -> list[str]:
    """What there is beside that, and does not go by itself."""
    prefix = broker.target.prefix
    names = [key.decode().removeprefix(prefix) for key in admin("KEYS", "*")]
    kept = [name for name in names if not LASTING.fullmatch(name) and not TABLES.fullmatch(name)]
    return [name for name in kept if admin("PTTL", prefix + name) < 0]


def lives(broker: RedisBroker, hand: Hand) -> None:
    """Let messages of every kind end in every way."""
    members = some_messages(4)
    broker.publish(members, Group("good", tuple(ids(members)), a_message()))
    broken = some_messages(2)
    broker.publish(broken, Group("broken", tuple(ids(broken)), a_message(), require_all=True))
    broker.publish([a_message(unique="u"), a_message(unique="w", unique_for=0.1)])
    broker.publish(some_messages(6, topic="keyed", key="k"))
    broker.publish(some_messages(6, topic="fifo"))
    broker.publish(some_messages(3, topic="rated", expires_in=0.05))
    broker.publish([a_message(topic="forwards")])
    broker.publish([later := a_message(delay=1000.0), a_message(delay=0.05)])
    broker.cancel([later.id])
    broker.wait(["nobody"], 0.01)
    time.sleep(0.1)
    failed = set(ids(broken[:1]))
    while claims := hand.claim(3) or _due(broker, hand):
        for number, claim in enumerate(claims):
            broker.progress(claim.ref, b"half")
            if claim.id in failed or claim.topic == "forwards":
                hand.bury(claim)
            elif claim.attempt == 1 and number == 0:
                hand.fail(claim, 0.05)
            elif number == 1:
                broker.cancel([claim.id])
                hand.drop(claim)
            else:
                assert broker.settle([Ack(claim.ref, b"1", result_ttl=0.1)]) == ()
    lock = broker.acquire("l", "me", 0.1)
    assert lock is not None


def _due(broker: RedisBroker, hand: Hand) -> list[Claim]:
    return hand.claim(3) if broker.wait_for_work(Subscription(), 0.5) else []


def test_nothing_is_left_of_what_has_ended(server: Redis, queue: str, open_one: Open) -> None:
    admin, broker = Admin(server.port), open_one(queue, server.url)
    broker.configure(
        [
            a_topic("keyed", key_limit=1, result_ttl=0.1),
            a_topic("fifo", ordering=Ordering.FIFO),
            a_topic("rated", limit=1),
            a_topic("forwards", dead=DeadPolicy.FORWARD, dead_topic="default"),
        ]
    )
    hand = Hand(broker)
    lives(broker, hand)
    assert broker.peek("default", State.WAITING, 10) == []
    broker.purge_dead()
    hand.broker.unregister(hand.worker)

    def swept() -> bool:
        broker.wait_for_work(Subscription(), 0.05)  # what is over is forgotten once a second
        return left(admin, broker) == []

    try:
        eventually(swept, timeout=15)
    except AssertionError as error:
        raise AssertionError(f"left: {left(admin, broker)}") from error
    prefix = broker.target.prefix
    tables = [key for key in admin("KEYS", "*") if TABLES.fullmatch(key.decode()[len(prefix) :])]
    assert len(tables) == 4
    assert [admin("HLEN", table) for table in tables] == [1] * 4


def test_locks_that_nobody_gives_back_go_as_fast_as_they_come(
    server: Redis, queue: str, open_one: Open
) -> None:
    admin, broker = Admin(server.port), open_one(queue, server.url)
    for name in range(400):
        assert broker.acquire(f"lock-{name}", "h", 0.001)
    assert admin("HLEN", broker.target.prefix + "lk") < 100


def test_dead_letters_that_are_too_old_go_as_fast_as_they_come(
    server: Redis, queue: str, open_one: Open
) -> None:
    admin, broker = Admin(server.port), open_one(queue, server.url)
    broker.configure([a_topic(dead_retention=0.001, dead_max=0)])
    hand = Hand(broker)
    for _ in range(10):
        broker.publish(some_messages(100))
        hand.bury(*hand.claim(100))
    assert admin("HLEN", broker.target.prefix + "dm") < 300


def test_a_task_that_waits_takes_at_most_600_bytes(
    server: Redis, queue: str, open_one: Open
) -> None:
    admin, broker = Admin(server.port), open_one(queue, server.url)
    broker.setup()
    body = b"x" * (300 + RECORD - len(a_message(body=b"x" * 300).record()))
    before = int(admin.info("used_memory"))
    for start in range(0, WAITING, 500):
        batch = [a_message(id=f"{n:032x}", body=body) for n in range(start, start + 500)]
        assert len(batch[0].record()) == RECORD
        broker.publish(batch)
    each = (int(admin.info("used_memory")) - before) / WAITING
    assert RECORD < each <= 600


def asked(admin: Admin) -> int:
    """How many commands clients have sent, of those that workers send; scripts run none of these."""
    lines = admin("INFO", "commandstats").decode().splitlines()
    found = [
        re.match(r"cmdstat_(evalsha|blpop|ping|select|wait):calls=(\d+)", one) for one in lines
    ]
    return sum(int(one[2]) for one in found if one)


def test_an_idle_worker_sends_at_most_one_command_a_second(tmp_path: Path) -> None:
    with closing(Bench(RedisVenue(tmp_path), tmp_path)) as bench:
        bench.ready(children=1)
        admin = Admin(servers.redis().port)
        time.sleep(3.5)  # it has found nothing to do
        left = 60 - time.time() % 60
        time.sleep(left + 4.0 if left < 22 else 0)  # its schedule fires with the minute
        before = asked(admin)
        eventually(lambda: asked(admin) > before)
        before = asked(admin)
        time.sleep(15)
        sent = asked(admin) - before
    assert 5 < sent <= 15
