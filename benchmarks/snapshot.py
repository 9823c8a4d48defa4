"""What a transaction that stays open costs the claims beside it: nothing dead can be cleaned up while it sees it.

`python -m benchmarks.snapshot --minutes 10 --rate 2000` runs a steady load against PostgreSQL, one minute as a measure,
then the given minutes with a transaction open elsewhere in the database. The last line is one JSON object: the claims'
p50 and p95 in milliseconds before, and in the last minute of the open transaction.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from contextlib import closing

import psycopg

from benchmarks.progress import say
from benchmarks.servers import server
from millgate.app import App
from millgate.brokers import open_broker
from millgate.brokers.base import Ask, Broker
from millgate.cli.measured import quantile
from millgate.fleet import WorkerInfo, WorkerRef
from millgate.ids import new_incarnation
from millgate.settlement import Ack, Settlement

_TOPIC = "bench"
_ROUND = 0.05  # seconds between two claims
_BEHIND = 1000  # tasks that wait all the time
_WARM = (
    75  # seconds: what has ended is removed after a minute, which is part of the load from then on
)


class Load:
    """Publishes and claims so many tasks a second, and keeps how long the claims took."""

    def __init__(self, broker: Broker, rate: int) -> None:
        self._broker, self._batch = broker, max(1, round(rate * _ROUND))
        self._worker = WorkerRef("snapshot", new_incarnation())
        self._task = App(broker).task(name="noop", topic=_TOPIC, result_ttl=0)(_nothing)
        self._ended: list[Settlement] = []
        broker.register(self._worker, WorkerInfo(slots=self._batch))
        self._task.send_many(() for _ in range(_BEHIND))

    def run(self, seconds: float) -> list[float]:
        """Milliseconds of each claim that settled the one before."""
        taken: list[float] = []
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            self._task.send_many(() for _ in range(self._batch))
            ask = Ask(n=self._batch)
            before = time.perf_counter()
            claims = self._broker.claim(self._worker, ask, self._ended).claims
            taken.append((time.perf_counter() - before) * 1000)
            if len(claims) < self._batch:
                raise SystemExit(f"{len(claims)} claims of {self._batch} with {_BEHIND} waiting")
            self._ended = [Ack(claim.ref, result_ttl=0) for claim in claims]
            time.sleep(max(0.0, _ROUND - (time.monotonic() - began)))
        return taken


def _nothing() -> None:
    """Never runs: what is measured is the claim."""


def measure(load: Load, url: str, minutes: int) -> dict[str, float]:
    """The claims before, and in the last minute beside an open transaction."""
    load.run(_WARM)
    before = load.run(60)
    with psycopg.connect(url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM pg_class")
        for minute in range(1, minutes + 1):
            beside = load.run(60)
            say(f"minute {minute}: p95 {quantile(beside, 0.95):.2f} ms")
        reader.execute("SELECT 1")  # still the same transaction, or this fails
    return {
        "p50_before_ms": round(statistics.median(before), 3),
        "p95_before_ms": round(quantile(before, 0.95), 3),
        "p50_beside_ms": round(statistics.median(beside), 3),
        "p95_beside_ms": round(quantile(beside, 0.95), 3),
        "ratio_p95": round(quantile(beside, 0.95) / quantile(before, 0.95), 2),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshot", description=__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--rate", type=int, default=2000, help="tasks a second (default: 2000)")
    options = parser.parse_args()
    with server("postgres") as running:
        url = running.url("millgate")
        with closing(open_broker(url, queue="millgate-snapshot", deadline=60)) as broker:
            broker.setup()
            result = measure(Load(broker, options.rate), url, options.minutes)
    print(json.dumps({"minutes": options.minutes, "rate": options.rate, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
