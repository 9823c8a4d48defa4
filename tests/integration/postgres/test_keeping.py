"""What is kept and what is not: error texts of any kind, forked children, and nothing that grows with history."""

from __future__ import annotations

import os
import time

import psycopg
import pytest

from millgate.brokers.base import State
from millgate.brokers.postgres import PostgresBroker
from millgate.errors import EXIT_OK
from millgate.fleet import WorkerState
from millgate.outcome import Failure, Reason
from millgate.queues import DeadPolicy
from millgate.retry import RetryPolicy
from millgate.settlement import Ack, Bury, Charge, Later
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url, open_queue
from support.wait import eventually
from support.working import Hand, at_work, has_still

NASTY = Failure("builtins.ValueError", "a\x00b \ud800 ü 'quoted' \\ {x}", "Traceback\x00…\n" * 50)


def test_an_error_text_of_any_kind_is_carried_over_to_another_topic(
    broker: PostgresBroker,
) -> None:
    broker.configure([a_topic("a", dead=DeadPolicy.FORWARD, dead_topic="b")])
    hand, message = Hand(broker), a_message(topic="a", headers={"x": "y"})
    broker.publish([message])
    broker.settle([Bury(hand.one("a").ref, Reason.FAILED, NASTY)])
    copy = hand.one("b").message()
    assert copy.headers["x"] == "y"
    assert copy.headers["millgate-dead-id"] == message.id
    assert broker.dead() == []


TABLES = (
    *("msg", "ready", "parked", "delayed", "lease", "keystate", "dead", "final"),
    *("uniq", "grp", "watch", "awaited", "idle", "ended"),
)


def _rows(broker: PostgresBroker) -> dict[str, int]:
    counts = {}
    with psycopg.connect(database_url()) as admin:
        admin.execute(f'SET search_path = "{broker.target.schema}"'.encode())
        for table in TABLES:
            row = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
            assert row is not None
            counts[table] = int(row[0])
    return counts


def test_nothing_is_left_of_what_has_ended(broker: PostgresBroker) -> None:
    broker.configure([a_topic(key_limit=1, result_ttl=0.1, dead_retention=0.1)])
    hand, kinds = Hand(broker), some_messages(30, key="k", unique=None)
    broker.publish(kinds)
    for number in range(30):
        claim = hand.one()
        if number % 3:
            broker.settle([Ack(claim.ref, b"1")])
        else:
            broker.settle([Bury(claim.ref, Reason.FAILED)])
    broker.publish([a_message(unique="u", delay=1000.0)])
    broker.cancel([broker.peek("default", State.DELAYED)[0].id])
    with psycopg.connect(database_url(), autocommit=True) as admin:  # an hour passes
        schema = broker.target.schema
        admin.execute(f"""UPDATE "{schema}".final SET until = now() - interval '1 s'""".encode())
        admin.execute(f"""UPDATE "{schema}".ended SET until = now() - interval '1 s'""".encode())
        admin.execute(
            f"""UPDATE "{schema}".upkeep SET pruned = now() - interval '1 h', cleared = '-infinity'""".encode()
        )
    time.sleep(0.2)
    broker.tick()
    assert {name: count for name, count in _rows(broker).items() if count} == {}
    stats = broker.stats().topics["default"]
    assert (stats.enqueued, stats.completed, stats.failed) == (31, 20, 11)


def test_old_results_go_in_batches_while_others_work(broker: PostgresBroker) -> None:
    with psycopg.connect(database_url(), autocommit=True) as admin:
        schema = broker.target.schema
        admin.execute(
            f"""INSERT INTO "{schema}".final (id, state, topic, until, call, attempt)
            SELECT 'f' || g, 1, 1, now() - interval '1 s', 0, 1 FROM generate_series(1, 30000) g""".encode()
        )
        admin.execute(f"""UPDATE "{schema}".upkeep SET cleared = '-infinity'""".encode())
    hand = Hand(broker)

    def gone() -> bool:
        broker.tick()
        broker.publish([a_message()])
        hand.ack(hand.one())
        return _rows(broker)["final"] < 200

    eventually(gone, timeout=20, every=1.0)


def test_a_forked_child_makes_connections_of_its_own(broker: PostgresBroker) -> None:
    broker.publish([a_message()])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            broker.publish([a_message()])
            broker.wait([broker.peek("default", State.WAITING)[0].id], 0.1)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == EXIT_OK
    assert broker.stats().topics["default"].waiting == 2


def test_a_closed_broker_holds_no_connection(queue: str) -> None:
    client = open_queue(queue)
    client.setup()
    client.listener()
    client.stats()
    with psycopg.connect(database_url(), autocommit=True) as admin:

        def left() -> int:
            row = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND datname = current_database()",
                [f'%"{queue}".%'],
            ).fetchone()
            assert row is not None
            return int(row[0])

        assert left() >= 1
        client.close()
        eventually(lambda: left() == 0)


@pytest.mark.parametrize("threads", [8])
def test_one_object_serves_many_threads(broker: PostgresBroker, threads: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> int:
        hand, done = Hand(broker, f"t{number}"), 0
        for _ in range(10):
            broker.publish(some_messages(5))
            claims = hand.claim(5)
            hand.ack(*claims)
            done += len(claims)
        return done

    with ThreadPoolExecutor(threads) as pool:
        done = sum(pool.map(work, range(threads)))
    stats = broker.stats().topics["default"]
    assert stats.completed == done
    assert (stats.waiting or 0) + done == threads * 50


def test_a_silent_worker_is_forgotten_and_a_fenced_one_is_not(broker: PostgresBroker) -> None:
    silent, fenced = Hand(broker), Hand(broker)
    broker.publish([a_message()])
    broker.fence(fenced.worker.name, 300.0)
    with psycopg.connect(database_url(), autocommit=True) as admin:  # a minute and a half passes
        schema = broker.target.schema
        past = f"""UPDATE "{schema}".worker SET seen = now() - interval '%s s'"""
        admin.execute((past % 60).encode())
        assert silent.ask().state is WorkerState.ACTIVE
        admin.execute((past % 91).encode())
    assert [row.name for row in broker.stats().workers] == [fenced.worker.name]
    assert not broker.fence(silent.worker.name, 60.0).known
    answer = silent.ask()
    assert (answer.claims, answer.state) == ((), WorkerState.UNKNOWN)
    assert fenced.ask().state is WorkerState.FENCED


def test_a_start_that_was_forgotten_while_its_leases_ran_on_has_them_still(
    broker: PostgresBroker,
) -> None:
    hand, claim = at_work(broker)
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f'UPDATE "{broker.target.schema}".worker SET gone = true')  # as after 90 s
    has_still(hand, claim)


@pytest.mark.parametrize("charge", list(Charge))
def test_a_message_may_come_back_any_number_of_times(
    broker: PostgresBroker, charge: Charge
) -> None:
    """A task that asks every second whether it may go on has come back 32,768 times after nine hours."""
    hand, message = Hand(broker), a_message()
    broker.publish([message])
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(
            f'UPDATE "{broker.target.schema}".ready SET failures = 32767, losses = 32767, interruptions = 32767'
        )
    assert broker.settle([Later(hand.one().ref, 0.0, charge)]) == ()
    claim = hand.one()
    assert claim.failures + claim.losses + claim.interruptions == 3 * 32_767 + 1
    assert broker.settle([Bury(claim.ref, Reason.FAILED, NASTY)]) == ()
    letter = broker.dead_letter(message.id)
    assert letter is not None
    assert letter.failures + letter.losses + letter.interruptions >= 3 * 32_767 + 1


def test_leases_may_be_lost_and_given_back_any_number_of_times(broker: PostgresBroker) -> None:
    broker.configure([a_topic("t", retry=RetryPolicy(losses=10**6))])
    broker.publish([a_message(topic="t")])
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f'SET search_path = "{broker.target.schema}"')
        admin.execute("UPDATE ready SET losses = 32767, interruptions = 32767")
        gone = Hand(broker)
        gone.one()
        broker.unregister(gone.worker)  # gives back
        hand = Hand(broker)
        assert hand.one().interruptions == 32_768
        admin.execute("UPDATE lease SET until = now() - interval '1 s'")
        eventually(lambda: broker.tick() or broker.stats().topics["t"].waiting == 1)
        assert hand.one().losses == 32_768
