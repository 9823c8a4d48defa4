"""Callers that wait for work of their topics, or for the end of some ids, found by what they wait for. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from millgate.queues import Subscription

K = TypeVar("K", bound=Hashable)


class Parked:
    """One call that is answered later. A line has one at most."""

    __slots__ = ("gone", "ids", "line", "number", "queue", "subscription", "until")

    def __init__(
        self,
        line: Hashable,
        number: int,
        queue: str,
        until: float,
        wanted: Subscription | Sequence[str],
    ) -> None:
        self.line = line
        self.number = number
        self.queue = queue
        self.until = until  # monotonic seconds
        self.subscription = wanted if isinstance(wanted, Subscription) else None
        self.ids: Sequence[str] = () if isinstance(wanted, Subscription) else wanted
        self.gone = False


class Waiting:
    """All parked calls."""

    def __init__(self) -> None:
        self._of: dict[Hashable, Parked] = {}
        self._workers: dict[str, dict[Parked, None]] = {}  # queue → in the order of their coming
        self._ids: dict[tuple[str, str], dict[Parked, None]] = {}

    def park(self, parked: Parked) -> None:
        """Let a call wait; an older one of the same line has been given up by its caller."""
        self.leave(parked.line)
        self._of[parked.line] = parked
        if parked.subscription is not None:
            self._workers.setdefault(parked.queue, {})[parked] = None
        for id_ in parked.ids:
            self._ids.setdefault((parked.queue, id_), {})[parked] = None

    def leave(self, line: Hashable) -> None:
        """Forget what a line waits for."""
        parked = self._of.pop(line, None)
        if parked is None:
            return
        parked.gone = True
        if parked.subscription is not None:
            _discard(self._workers, parked.queue, parked)
        for id_ in parked.ids:
            _discard(self._ids, (parked.queue, id_), parked)

    def for_work(self, queue: str) -> dict[Subscription, list[Parked]]:
        """Who waits for work of a queue, by what they take, the longest waiting first."""
        found: dict[Subscription, list[Parked]] = {}
        for parked in self._workers.get(queue, ()):
            if parked.subscription is not None:
                found.setdefault(parked.subscription, []).append(parked)
        return found

    def for_ends(self, queue: str, ids: Iterable[str]) -> list[Parked]:
        """Who waits for the end of any of these ids, each once."""
        found: dict[Parked, None] = {}
        for id_ in ids:
            found.update(self._ids.get((queue, id_), {}))
        return list(found)

    def __len__(self) -> int:
        return len(self._of)


def _discard(index: dict[K, dict[Parked, None]], key: K, parked: Parked) -> None:
    found = index.get(key)
    if found is not None:
        found.pop(parked, None)
        if not found:
            del index[key]
