"""Producers and workers under load while something breaks: what was accepted, what was run, and how often."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable

from millgate.brokers.base import Ask, Broker
from millgate.errors import BrokerError, QueueFull
from millgate.fleet import WorkerState
from millgate.message import Message
from millgate.queues import Subscription
from millgate.settlement import Ack, Settlement
from support.builders import a_worker, an_info

_BATCH = 20


class Ledger:
    """Load on one queue from its making until `finish`; each thread has a client of its own."""

    def __init__(self, client: Callable[[], Broker], producers: int = 2, workers: int = 2) -> None:
        self.accepted: set[str] = set()
        self.runs: Counter[str] = Counter()
        self.acknowledged: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.gap = 0.0  # the longest time without a run
        self._client = client
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._producing = threading.Event()
        self._working = threading.Event()
        self._last = time.monotonic()
        self._producers = [threading.Thread(target=self._produce) for _ in range(producers)]
        self._workers = [threading.Thread(target=self._work) for _ in range(workers)]
        for thread in (*self._producers, *self._workers):
            thread.start()

    def finish(self, timeout: float = 60.0) -> None:
        """Stop producing, let the workers empty the queue, and stop them.

        Raises when something accepted has not run and nothing has for `timeout` seconds.
        """
        self._producing.set()
        for thread in self._producers:
            thread.join(timeout)
        began = time.monotonic()
        while self.lost and time.monotonic() < max(began, self._last) + timeout:
            time.sleep(0.05)
        self._working.set()
        for thread in self._workers:
            thread.join(timeout)
        quiet = time.monotonic() - self._last
        assert not self.lost, (
            f"{len(self.lost)} of {len(self.accepted)} accepted tasks never ran; the last run was {quiet:.0f}s ago,"
            f" errors: {dict(self.errors.most_common(5))}"
        )

    def stop(self) -> None:
        """End at once, whatever is left."""
        self._producing.set()
        self._working.set()
        for thread in (*self._producers, *self._workers):
            thread.join(60)

    @property
    def lost(self) -> set[str]:
        """What was accepted and has not run."""
        with self._lock:
            return self.accepted - self.runs.keys()

    @property
    def twice(self) -> list[str]:
        """What was run again although its acknowledgement had been taken."""
        return [name for name, count in self.acknowledged.items() if count > 1]

    def _produce(self) -> None:
        broker = self._client()
        while not self._producing.is_set():
            names = [f"led-{next(self._numbers)}" for _ in range(5)]
            messages = [Message(id=n, topic="default", task="t", body=b"x" * 100) for n in names]
            while not self._producing.is_set():
                try:
                    broker.publish(messages)
                except (BrokerError, QueueFull) as error:
                    self._failed(error)  # repeated with the same ids until it is known to be there
                    continue
                with self._lock:
                    self.accepted.update(names)
                break
            time.sleep(0.002)

    def _work(self) -> None:
        broker, worker, registered = self._client(), a_worker(), False
        settlements: list[Settlement] = []
        while not self._working.is_set():
            try:
                if not registered:
                    broker.register(worker, an_info())
                    registered = True
                answer = broker.claim(worker, Ask(n=_BATCH), settlements)
                done = {ack.claim.id for ack in settlements} - set(answer.stale)
                registered = answer.state is not WorkerState.UNKNOWN
                with self._lock:
                    self.acknowledged.update(done)
                    self.runs.update(claim.id for claim in answer.claims)
                    if answer.claims:
                        now = time.monotonic()
                        self.gap, self._last = max(self.gap, now - self._last), now
                settlements = [Ack(claim.ref) for claim in answer.claims]
                if not answer.claims:
                    broker.wait_for_work(Subscription(), 0.5)
            except BrokerError as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.errors[f"{type(error).__name__}: {error}"[:200]] += 1
        time.sleep(0.05)
