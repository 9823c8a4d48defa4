"""Being woken: within milliseconds, after the listening connection died, through a pooler, at next to no cost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from millgate.brokers.base import State
from millgate.brokers.postgres import PostgresBroker, waiting
from millgate.queues import Subscription
from support import servers
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url, open_queue
from support.servers import PgBouncer, Postgres
from support.wait import eventually
from support.working import Hand, ids

ALL = Subscription()


class Sleeper:
    """A thread in `wait_for_work`, and when it woke."""

    def __init__(self, broker: PostgresBroker, timeout: float = 10.0, *topics: str) -> None:
        self.answer: bool | None = None
        self.woke = 0.0
        self._broker, self._timeout, self._topics = broker, timeout, topics
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        time.sleep(0.3)  # asleep, its second look behind it

    def _wait(self) -> None:
        self.answer = self._broker.wait_for_work(Subscription(self._topics), self._timeout)
        self.woke = time.monotonic()

    def join(self) -> None:
        self._thread.join(self._timeout + 5)


def _delay(broker: PostgresBroker, act: Callable[[], object]) -> float:
    """Seconds from `act` to the waking of a sleeper, which must have had a reason."""
    sleeper = Sleeper(broker)
    begun = time.monotonic()
    act()
    sleeper.join()
    assert sleeper.answer is True
    return sleeper.woke - begun


def test_a_publish_wakes_a_sleeper_in_milliseconds(broker: PostgresBroker, queue: str) -> None:
    other = open_queue(queue)
    other.stats()
    hand = Hand(broker)
    delays = []
    for _ in range(10):
        delays.append(_delay(broker, lambda: other.publish([a_message()])))
        hand.ack(hand.one())
    assert sorted(delays)[len(delays) // 2] < 0.1, delays  # a look comes once a second
    other.close()


def test_one_message_wakes_one_of_four_sleepers(
    queue: str, broker: PostgresBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A look of their own may find it before it is claimed.
    monkeypatch.setattr(waiting, "_LOOK", 30.0)
    clients = [open_queue(queue) for _ in range(4)]
    sleepers = [Sleeper(client, 2.5) for client in clients]
    hand = Hand(broker)
    broker.publish([a_message()])
    claimed = hand.one()
    for sleeper in sleepers:
        sleeper.join()
    assert sum(sleeper.answer is True for sleeper in sleepers) == 1
    broker.settle([])
    assert claimed.attempt == 1
    for client in clients:
        client.close()


def test_only_who_takes_the_topic_is_woken(queue: str, broker: PostgresBroker) -> None:
    broker.configure([a_topic("a"), a_topic("b")])
    mine, other = open_queue(queue), open_queue(queue)
    asleep, awake = Sleeper(mine, 0.8, "a"), Sleeper(other, 5.0, "b")
    begun = time.monotonic()
    broker.publish([a_message(topic="b")])
    awake.join()
    asleep.join()
    assert (awake.answer, asleep.answer) == (True, False)
    assert awake.woke - begun < 0.5
    for client in (mine, other):
        client.close()


@pytest.mark.parametrize("why", ["slot", "resume", "replay", "requeue", "configure", "due"])
def test_whatever_makes_work_claimable_wakes(broker: PostgresBroker, queue: str, why: str) -> None:
    broker.configure([a_topic(limit=1)])
    other = open_queue(queue)
    hand = Hand(other)
    acts: dict[str, Callable[[], object]] = {
        "slot": lambda: hand.ack(running),
        "resume": lambda: other.pause("default", False),
        "replay": lambda: other.replay([running.id]),
        "requeue": lambda: other.requeue([running.id]),
        "configure": lambda: other.configure([a_topic(limit=2)]),
        "due": lambda: other.publish([a_message(delay=0.2)]),
    }
    other.publish([a_message()])
    running = hand.one()
    if why in ("slot", "configure"):
        other.publish([a_message()])
    elif why == "resume":
        other.pause("default", True)
        hand.ack(running)
        other.publish([a_message()])
    elif why == "replay":
        hand.bury(running)
    elif why == "due":
        hand.ack(running)
    assert _delay(broker, acts[why]) < 0.9
    other.close()


def test_a_killed_listening_session_costs_at_most_a_moment(
    broker: PostgresBroker, queue: str
) -> None:
    other, hand = open_queue(queue), Hand(broker)
    with psycopg.connect(database_url(), autocommit=True) as admin:
        for pause in (0.0, 0.3, 0.0, 0.3, 0.0):
            sleeper = Sleeper(broker)
            killed = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'LISTEN%%' AND datname = current_database()"
            ).fetchall()
            assert killed
            time.sleep(pause)
            begun = time.monotonic()
            other.publish([a_message()])
            sleeper.join()
            assert sleeper.answer is True
            assert sleeper.woke - begun < 2.0
            hand.ack(hand.one())
            assert eventually(lambda: broker.listener().connected)
    other.close()


def test_a_result_wakes_who_waits_for_it(broker: PostgresBroker, queue: str) -> None:
    other = open_queue(queue)
    hand, message = Hand(other), a_message()
    broker.publish([message])
    claim = hand.one()
    answered: list[float] = []

    def wait() -> None:
        [known] = broker.wait([message.id], 10.0)
        assert (known.state, known.result) == (State.SUCCEEDED, b"42")
        answered.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join(1.0)  # its looks are a second apart by now
    begun = time.monotonic()
    hand.ack(claim, result=b"42")
    waiter.join(5)
    assert answered
    assert answered[0] - begun < 0.5
    other.close()


def test_a_sleeping_worker_costs_at_most_two_statements_a_second(queue: str) -> None:
    server = Postgres(log_statement="all")
    client = open_queue(queue, server.url())
    client.setup()
    hand = Hand(client)
    assert hand.claim(1) == []
    client.wait_for_work(ALL, 1.2)
    before = _statements(server)
    begun = time.monotonic()
    while time.monotonic() - begun < 5.0:
        assert client.wait_for_work(ALL, begun + 5.0 - time.monotonic()) is False
    assert (_statements(server) - before) / 5.0 <= 2.0
    client.close()
    server.close()


def _statements(server: Postgres) -> int:
    return sum(
        " statement: " in line or " execute " in line
        for line in server.log.read_text(errors="replace").splitlines()
    )


@pytest.fixture
def pooler() -> Iterator[PgBouncer]:
    """A transaction pooler in front of the session's server."""
    database_url()  # what the pooler is asked for must be there, whichever test comes first
    made = PgBouncer(servers.postgres())
    yield made
    made.close()


@pytest.mark.parametrize("word", ["auto", "transaction"])
def test_everything_works_through_a_transaction_pooler(
    queue: str, pooler: PgBouncer, word: str
) -> None:
    url = f"{pooler.url(f'suite_{os.getpid()}')}?pooler={word}"
    clients = [open_queue(queue, url) for _ in range(6)]
    clients[0].setup()
    assert all(client.server().detail["pooler"] is True for client in clients)
    messages = some_messages(60)
    threads = [
        threading.Thread(target=client.publish, args=(messages[n * 10 : n * 10 + 10],))
        for n, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    ran = [name for client in clients for name in ids(Hand(client).claim(10))]
    assert sorted(ran) == sorted(ids(messages))
    assert _delay(clients[1], lambda: clients[2].publish([a_message()])) < 1.5
    with clients[3].pool.open(5.0) as connection:
        assert connection.prepare_threshold is None
    for client in clients:
        client.close()


def test_a_pooler_that_takes_no_settings_is_found_out(queue: str, pooler: PgBouncer) -> None:
    client = open_queue(queue, pooler.url(f"suite_{os.getpid()}"))
    client.setup()
    assert client.pool.pooled is True
    client.close()
