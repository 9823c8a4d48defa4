"""A claim reads what it hands over, whatever waits, is delayed or lies dead: a million of each change nothing.

Costs are blocks of tables and indexes, which do not depend on how busy the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from millgate.brokers.base import Ask
from millgate.brokers.postgres import PostgresBroker
from millgate.message import Claim
from millgate.queues import Subscription
from millgate.settlement import Ack, Settlement
from support.builders import a_message, a_topic, some_messages
from support.postgres import open_queue
from support.servers import Postgres
from support.working import Hand

MILLION = 1_000_000
HOT = Subscription(("hot",))


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    made = Postgres(shared_buffers="256MB", max_wal_size="4GB", autovacuum="off")
    yield made
    made.close()


class Meter:
    """What a queue's tables and indexes were read, by table."""

    def __init__(self, server: Postgres, schema: str) -> None:
        self._server, self._schema = server, schema

    def blocks(self) -> int:
        return self._read(
            "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0)) "
            "FROM pg_statio_user_tables WHERE schemaname = %s"
        )

    def sequential(self) -> dict[str, int]:
        with psycopg.connect(self._server.url()) as connection:
            rows = connection.execute(
                "SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = %s",
                [self._schema],
            ).fetchall()
        return {str(name): int(count) for name, count in rows}

    def _read(self, query: str) -> int:
        with psycopg.connect(self._server.url()) as connection:
            row = connection.execute(query, [self._schema]).fetchone()
        assert row is not None
        return int(row[0])

    def entries(self, index: str) -> int:
        """Entries of an index that were read, dead ones among them."""
        return self._read(
            "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes "
            f"WHERE schemaname = %s AND indexrelname = '{index}'"
        )


def _insert(server: Postgres, queue: str, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f'SET search_path = "{queue}"')
        for statement in statements:
            admin.execute(statement)


def _message_rows(topic: str, prefix: str) -> str:
    columns = f"nextval('seq'), '{prefix}' || g, t.id, 5, 0, 'x'"
    return (
        f"INSERT INTO msg (seq, id, topic, prio, call, record) SELECT {columns} "
        f"FROM generate_series(1, {MILLION}) g, topic t WHERE t.name = '{topic}'"
    )


def _fill(server: Postgres, queue: str) -> None:
    """A million waiting in a paused topic, delayed, dead and finished, none of it analysed."""
    place = "FROM msg m JOIN topic t ON t.id = m.topic WHERE t.name = "
    _insert(
        server,
        queue,
        _message_rows("paused", "p"),
        _message_rows("later", "l"),
        _message_rows("dead", "d"),
        f"INSERT INTO ready (lane, seq, since) SELECT m.topic * 16 + 4, m.seq, now() {place} 'paused'",
        "INSERT INTO delayed (due, seq, topic, prio) "
        f"SELECT now() + interval '1 day' + m.seq * interval '1 ms', m.seq, m.topic, 5 {place} 'later'",
        "INSERT INTO dead (seq, topic, died, reason, attempt, failures, losses, interruptions, worker, forward) "
        f"SELECT m.seq, m.topic, now(), 'Failed', 1, 1, 0, 0, '', false {place} 'dead'",
        "INSERT INTO final (id, state, topic, until, shown, call, attempt) "
        f"SELECT 'f' || g, 1, 1, now() + interval '1 day', now(), 0, 1 FROM generate_series(1, {MILLION}) g",
        f"INSERT INTO delta (topic, ready, enq) SELECT id, {MILLION}, {MILLION} FROM topic WHERE name = 'paused'",
        f"INSERT INTO delta (topic, delayed, enq) SELECT id, {MILLION}, {MILLION} FROM topic WHERE name = 'later'",
        f"INSERT INTO delta (topic, dead, enq) SELECT id, {MILLION}, {MILLION} FROM topic WHERE name = 'dead'",
    )


@contextmanager
def _dead_in_front(server: Postgres, queue: str, count: int) -> Iterator[None]:
    """So many dead rows before what waits in the hot topic, which a transaction that is open elsewhere still sees."""
    with psycopg.connect(server.url()) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT 1")
        _insert(
            server,
            queue,
            _message_rows("hot", "h").replace(str(MILLION), str(count)),
            "INSERT INTO ready (lane, seq, since) SELECT m.topic * 16 + 4, m.seq, now() FROM msg m",
            "DELETE FROM ready",
            "DELETE FROM msg",
        )
        yield


def _lease_out(server: Postgres, queue: str, count: int) -> None:
    """So many messages that somebody has for an hour."""
    _insert(
        server,
        queue,
        _message_rows("paused", "o").replace(str(MILLION), str(count)),
        "INSERT INTO lease SELECT m.seq, 1, m.topic, 5, 0, now() + interval '1 h', now(), 0, 0, 0, false "
        "FROM msg m JOIN topic t ON t.id = m.topic WHERE t.name = 'paused'",
    )


def _drain(client: PostgresBroker, count: int, batch: int = 100) -> float:
    """Publish and drain `count` messages of the hot topic; the slowest claim's seconds at the 95th percentile."""
    for _ in range(count // batch):
        client.publish(some_messages(batch, topic="hot"))
    hand, settlements, times = Hand(client), list[Settlement](), list[float]()
    while True:
        begun = time.monotonic()
        answer = client.claim(hand.worker, Ask(HOT, batch), settlements)
        times.append(time.monotonic() - begun)
        if not answer.claims:
            break
        settlements = [Ack(claim.ref, b"1") for claim in answer.claims]
    client.unregister(hand.worker)
    return sorted(times)[int(len(times) * 0.95)]


def _cost(server: Postgres, queue: str, count: int) -> float:
    """Blocks per message that draining takes, on a session that planned while the tables were as they are."""
    meter, client = Meter(server, queue), open_queue(queue, server.url())
    _drain(client, 200)
    client.close()
    before, client = meter.blocks(), open_queue(queue, server.url())
    _drain(client, count)
    client.close()
    time.sleep(0.5)  # the session's figures arrive with its end
    return (meter.blocks() - before) / count


def test_a_million_of_everything_else_changes_nothing(server: Postgres, queue: str) -> None:
    old = open_queue(queue, server.url())
    old.setup()
    old.configure(
        [
            a_topic("hot"),
            a_topic("paused", paused=True),
            a_topic("later"),
            a_topic("dead", dead_max=0),
        ]
    )
    _drain(old, 200)  # plans of this session are made on empty tables, and are kept
    empty = _cost(server, queue, 3000)
    _fill(server, queue)
    before = Meter(server, queue).sequential()
    full = _cost(server, queue, 3000)
    slowest = _drain(old, 3000)
    stats = old.stats().topics
    assert (stats["paused"].waiting, stats["later"].delayed, stats["dead"].dead) == (MILLION,) * 3
    assert len(old.dead("dead", 5)) == 5
    old.close()
    time.sleep(0.5)
    assert full < empty * 1.5, (
        f"{empty} blocks became {full}: more than indexes that are a level or two deeper"
    )
    assert slowest < 0.5, "seconds on a busy machine; a scan of a million rows takes longer"
    after = Meter(server, queue).sequential()
    scanned = {
        name: after[name] - before[name]
        for name in ("msg", "ready", "lease", "delayed", "dead", "final", "parked")
        if after[name] - before[name] > 0
    }
    assert scanned == {}, "no plan reads a table from end to end"


def test_plans_that_were_made_on_empty_tables_do_not_read_full_ones_whole(
    server: Postgres, queue: str
) -> None:
    first = open_queue(queue, server.url())
    first.setup()
    first.configure([a_topic("hot"), a_topic("paused", paused=True)])
    _drain(first, 200)
    first.close()
    # their pages stay, as where somebody reads them meanwhile: few rows are expected of any number of pages
    vacuum = [f"VACUUM (ANALYZE, TRUNCATE false) {name}" for name in ("msg", "ready", "lease")]
    _insert(server, queue, "DELETE FROM msg", "DELETE FROM ended", "DELETE FROM final", *vacuum)
    empty = _cost(server, queue, 2000)
    _insert(server, queue, *vacuum)
    meter, planned = Meter(server, queue), open_queue(queue, server.url())
    _drain(planned, 200)
    _lease_out(server, queue, 100_000)
    before = meter.blocks()
    _drain(planned, 2000)
    planned.close()
    time.sleep(0.5)
    full = (meter.blocks() - before) / 2000
    assert full < 2 * empty + 10, f"{empty} blocks a message became {full}"


def test_an_open_transaction_elsewhere_does_not_slow_claims_down(
    server: Postgres, queue: str
) -> None:
    client = open_queue(queue, server.url())
    client.setup()
    client.configure([a_topic("hot")])
    with _dead_in_front(server, queue, 300_000):
        for _ in range(40):
            client.publish(some_messages(100, topic="hot"))
        hand, held, times = Hand(client), list[Claim](), list[float]()
        for _ in range(40):
            begun = time.monotonic()
            answer = client.claim(hand.worker, Ask(HOT, 100), [Ack(c.ref) for c in held])
            times.append(time.monotonic() - begun)
            held = list(answer.claims)
            assert len(held) == 100
        # all dead entries are looked at a few times, then the client knows where to start
        dear, cheap = max(times[:5]), sorted(times[10:])[len(times[10:]) // 2]
        assert cheap < dear / 2, (dear, cheap)
        late = a_message(topic="hot")
        client.publish([late])
        client.settle([Ack(c.ref) for c in held])
        assert [claim.id for claim in hand.claim(5)] == [late.id]
        assert client.server().detail["oldest_transaction"] > 0
    client.close()


def test_a_claim_passes_what_lies_dead_in_front_once(server: Postgres, queue: str) -> None:
    first = open_queue(queue, server.url())
    first.setup()
    first.configure([a_topic("hot")])
    with _dead_in_front(server, queue, 20_000):
        first.publish(some_messages(10, topic="hot"))
        first.close()
        meter = Meter(server, queue)
        time.sleep(0.5)
        before = meter.entries("ready_pkey")
        fresh = open_queue(queue, server.url())  # knows of nothing to pass over
        assert len(Hand(fresh).claim(5, "hot")) == 5
        fresh.close()
        time.sleep(0.5)  # the session's figures arrive with its end
        assert 20_000 <= meter.entries("ready_pkey") - before < 30_000
