"""Values that are forgotten at a time of their own: a dict whose entries end, earliest first."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_SLACK = 64


class Expiring(Generic[K, V]):
    """Keys with a value and an end. Nothing ends by itself: `due` and `pop_due` are asked by whoever has the time."""

    __slots__ = ("_heap", "_items", "_serial")

    def __init__(self) -> None:
        self._items: dict[K, tuple[float, int, V]] = {}
        self._heap: list[tuple[float, int, K]] = []
        #: Keeps keys from being compared, and tells a renewed entry from its older self.
        self._serial = 0

    def set(self, key: K, value: V, until: float) -> None:
        """Keep `value` under `key` until that time, in place of what was there."""
        self._serial += 1
        self._items[key] = (until, self._serial, value)
        heapq.heappush(self._heap, (until, self._serial, key))
        if len(self._heap) > 2 * len(self._items) + _SLACK:
            self._heap = [(end, serial, k) for k, (end, serial, _) in self._items.items()]
            heapq.heapify(self._heap)

    def get(self, key: K) -> V | None:
        """The value, or None."""
        item = self._items.get(key)
        return item[2] if item is not None else None

    def until(self, key: K) -> float | None:
        """When the key ends, or None."""
        item = self._items.get(key)
        return item[0] if item is not None else None

    def pop(self, key: K) -> V | None:
        """Forget a key now; its value, or None."""
        item = self._items.pop(key, None)
        return item[2] if item is not None else None

    def due(self) -> float | None:
        """When the next entry ends; None: there is none."""
        heap, items = self._heap, self._items
        while heap:
            until, serial, key = heap[0]
            item = items.get(key)
            if item is not None and item[1] == serial:
                return until
            heapq.heappop(heap)
        return None

    def pop_due(self, now: float) -> tuple[K, V] | None:
        """Take one entry whose time has come; None: there is none."""
        until = self.due()
        if until is None or until > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        return key, self._items.pop(key)[2]

    def shift(self, by: float) -> None:
        """Move every end by that many seconds."""
        self._items = {k: (end + by, serial, v) for k, (end, serial, v) in self._items.items()}
        self._heap = [(end + by, serial, key) for end, serial, key in self._heap]

    def items(self) -> Iterator[tuple[K, V, float]]:
        """Key, value and end of every entry, in the order in which they were first set."""
        for key, (until, _, value) in self._items.items():
            yield key, value, until

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: K) -> bool:
        return key in self._items
