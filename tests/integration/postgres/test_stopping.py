"""What forbids claims waits for those that are under way: when it returns, none follows."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from millgate.brokers.postgres import PostgresBroker
from millgate.queues import QueuePolicy
from support.builders import a_message, a_topic
from support.postgres import database_url
from support.wait import eventually
from support.working import Hand

Open = Callable[..., PostgresBroker]
#: What forbids, and how many messages run once it has returned.
STOPS: dict[str, tuple[Callable[[PostgresBroker, Hand], object], int]] = {
    "pause": (lambda broker, _: broker.pause("default", True), 1),
    "a paused policy": (lambda broker, _: broker.configure([a_topic(paused=True)]), 1),
    "suspend": (lambda broker, _: broker.configure([], QueuePolicy(suspended=True)), 1),
    "fence": (lambda broker, hand: broker.fence(hand.worker.name, 60.0), 1),
    "a newer start": (lambda broker, hand: Hand(broker, hand.worker.name), 1),
    "unregister": (lambda broker, hand: broker.unregister(hand.worker), 0),
}
#: Nobody may hold the message before this transaction has ended, and nobody knows that who looks for messages.
HELD_UP = """INSERT INTO "{0}".lease SELECT seq, 1, topic, prio, 0, now() + interval '1 h', now(), 0, 0, 0, false
    FROM "{0}".msg"""
WAITS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'transactionid' AND query LIKE '%"{0}".claim%'"""


def running(broker: PostgresBroker) -> int | None:
    return broker.stats().topics["default"].leased


@pytest.mark.parametrize("stop", STOPS)
def test_no_claim_follows_once_what_forbids_it_has_returned(
    broker: PostgresBroker, queue: str, open_one: Open, stop: str
) -> None:
    forbid, left = STOPS[stop]
    hand = Hand(open_one(queue))
    broker.publish([a_message()])
    told: list[int | None] = []

    def forbidding() -> None:
        forbid(broker, hand)
        told.append(running(broker))

    threads = [threading.Thread(target=hand.claim), threading.Thread(target=forbidding)]
    with (
        psycopg.connect(database_url()) as other,
        psycopg.connect(database_url(), autocommit=True) as looking,
    ):
        other.execute(HELD_UP.format(queue).encode())
        threads[0].start()
        eventually(lambda: looking.execute(WAITS.format(queue).encode()).fetchone() == (1,))
        threads[1].start()
        threads[1].join(0.5)
        other.rollback()
    for thread in threads:
        thread.join(10)
    assert told == [running(broker)] == [left]
