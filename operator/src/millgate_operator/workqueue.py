"""A queue of keys: each at most once in it and once in work, failures later and later, everything by a given clock.

`WorkQueue` is the state machine and never waits; `run` is the thread around it.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Hashable
from random import Random
from typing import Final, Generic, TypeVar

from millgate.clock import Clock
from millgate_operator.errors import RetryLater

_LOG = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST: Final = 1.0  # seconds until a failed key is tried again
LAST: Final = 300.0


class WorkQueue(Generic[K]):
    """Keys that want work, soonest first. Safe from several threads."""

    def __init__(self, clock: Clock, random: Random | None = None) -> None:
        self._clock, self._random = clock, random or Random()  # noqa: S311 -- spreads retries
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._number = 0
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._lock = threading.Lock()
        # of the threads without work one watches for the next key that is due, the others sleep until it has gone
        self._due_sooner = threading.Condition(self._lock)
        self._watch_free = threading.Condition(self._lock)
        self._watched = False
        #: When the one that watches looks again; None: when it is told.
        self._until: float | None = None
        self._stopped = False

    def add(self, key: K, after: float = 0.0) -> None:
        """Want work on `key` in `after` seconds, or sooner when that is wanted already."""
        with self._lock:
            due = self._clock.monotonic() + after
            if key in self._due and self._due[key] <= due:
                return
            self._due[key] = due
            self._number += 1
            heapq.heappush(self._heap, (due, self._number, key))
            if self._until is None or due < self._until:
                self._due_sooner.notify()

    def take(self) -> K | None:
        """A key that is due and not in work; it is in work until `done`. None: there is none now."""
        with self._lock:
            return self._take()

    def _take(self) -> K | None:
        now, busy = self._clock.monotonic(), []
        taken: K | None = None
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            due, _, key = entry
            if self._due.get(key) != due:
                continue  # an older wish, replaced since
            if key in self._working:
                busy.append(entry)  # somebody works on it: afterwards
                continue
            taken = key
            del self._due[key]
            self._working.add(key)
            break
        for entry in busy:
            heapq.heappush(self._heap, entry)
        return taken

    def done(self, key: K, *, failed: bool = False, again: float | None = None) -> None:
        """The work on `key` is over. Failed: it comes back after a growing, jittered wait; `again`: after that many
        seconds."""
        with self._lock:
            self._working.discard(key)
            if failed:
                count = self._failures[key] = self._failures.get(key, 0) + 1
                wait = min(LAST, FIRST * 2 ** min(count - 1, 16))
                again = wait * self._random.uniform(0.8, 1.2)
            else:
                self._failures.pop(key, None)
            if key in self._due:  # wanted meanwhile, and passed over
                self._due_sooner.notify()
        if again is not None:
            self.add(key, again)

    def forget(self, key: K) -> None:
        """Drop what is wanted of `key`, and its failures."""
        with self._lock:
            self._due.pop(key, None)
            self._failures.pop(key, None)

    def waiting(self) -> float | None:
        """Seconds until the next key is due; None: there is none, or all are in work."""
        with self._lock:
            return self._waiting()

    def _waiting(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # an older wish, replaced since
        if not self._heap:
            return None
        first, _, key = self._heap[0]
        if key in self._working:
            free = [due for key, due in self._due.items() if key not in self._working]
            if not free:
                return None
            first = min(free)
        return max(0.0, first - self._clock.monotonic())

    def __len__(self) -> int:
        """Keys that want work, now or later."""
        with self._lock:
            return len(self._due)

    def stop(self) -> None:
        """Let every `run` end after its present key."""
        with self._lock:
            self._stopped = True
            self._due_sooner.notify_all()
            self._watch_free.notify_all()

    def run(self, work: Callable[[K], float | None]) -> None:
        """Work on keys until `stop`. `work` answers after how many seconds it wants the key again, if at all; when
        it raises, whatever it raises, the key comes back later and later, and no other key suffers."""
        while (key := self._next()) is not None:
            try:
                again = work(key)
            except RetryLater as later:
                _LOG.info("%s is tried again: %s", key, later)
                self.done(key, failed=True)
            except Exception:  # noqa: BLE001 -- one poisonous key must not stop the others
                _LOG.exception("%s could not be worked on", key)
                self.done(key, failed=True)
            else:
                self.done(key, again=again)

    def _next(self) -> K | None:
        """A key that is due, waited for; None: the queue is stopped."""
        with self._lock:
            while not self._stopped:
                key = self._take()
                if key is not None:
                    self._watch_free.notify()
                    return key
                if self._watched:
                    self._watch_free.wait()
                    continue
                self._watch()
            return None

    def _watch(self) -> None:
        wait = self._waiting()
        self._until = None if wait is None else self._clock.monotonic() + wait
        self._watched = True
        try:
            self._due_sooner.wait(wait)
        finally:
            self._watched = False
