"""Workers that claim and settle as fast as they can, in processes where the broker allows, and what they saw."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

from millgate.brokers import open_broker
from millgate.brokers.base import Broker
from millgate.message import Claim
from millgate.queues import Subscription
from millgate.settlement import Ack, Settlement
from support.brokers import Venue
from support.wait import eventually
from support.working import Hand

WORKERS = 8


class Run(NamedTuple):
    """One task in one worker's hands, in seconds of the machine's monotonic clock."""

    id: str
    topic: str
    key: str | None
    start: float
    end: float


def hammer(venue: Venue, batch: int = 2, hold: float = 0.002) -> list[Run]:
    """Let WORKERS workers empty the queue, each holding what it claims about `hold` seconds; all runs of all."""
    with ThreadPoolExecutor(WORKERS) as threads:
        executor: Executor = threads if venue.url is None else _processes()
        if venue.url is None:
            futures = [
                executor.submit(_work, venue.client(), n, batch, hold) for n in range(WORKERS)
            ]
        else:
            place = (venue.url, venue.queue)
            futures = [executor.submit(_process, place, n, batch, hold) for n in range(WORKERS)]
        return [run for future in futures for run in future.result(timeout=240)]


def most_at_once(runs: Iterable[Run]) -> int:
    """The largest number of runs that overlapped."""
    steps = sorted(step for run in runs for step in ((run.start, 1), (run.end, -1)))
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


@cache
def _processes() -> ProcessPoolExecutor:
    """Started once for all tests: eight interpreters take longer to start than a test takes to run."""
    return ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn"))


def _process(place: tuple[str, str], number: int, batch: int, hold: float) -> list[Run]:
    url, queue = place
    broker = open_broker(url, queue=queue)
    try:
        return _work(broker, number, batch, hold)
    finally:
        broker.close()


def _work(broker: Broker, number: int, batch: int, hold: float) -> list[Run]:
    """Claim until the queue holds nothing that waits or runs; half of the settlements ride on the next claim."""
    hand, dice = Hand(broker, f"hammer-{number}"), random.Random(number)
    eventually(lambda: len(broker.stats().workers) >= WORKERS, timeout=30)  # all start together
    runs: list[Run] = []
    settlements: list[Settlement] = []
    while True:
        answer = hand.ask(batch, settlements)
        start = time.monotonic()
        settlements = []
        if not answer.claims:
            if not broker.wait_for_work(Subscription(), 0.05) and _done(broker):
                return runs
            continue
        if dice.random() < 0.5:
            time.sleep(hold * (0.5 + dice.random()))
        end = time.monotonic()
        runs += [_run(claim, start, end) for claim in answer.claims]
        settlements = [Ack(claim.ref) for claim in answer.claims]
        if dice.random() < 0.5:
            assert broker.settle(settlements) == ()
            settlements = []


def _run(claim: Claim, start: float, end: float) -> Run:
    return Run(claim.id, claim.topic, claim.key, start, end)


def _done(broker: Broker) -> bool:
    topics = broker.stats().topics.values()
    return not any((topic.waiting or 0) + (topic.leased or 0) for topic in topics)
