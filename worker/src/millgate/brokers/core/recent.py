"""Ids of messages that ended without a trace worth keeping, remembered for a while and in bounded number."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from millgate.brokers.base import PUBLISH_MEMORY

#: Ids that are remembered at most. At a rate that fills this sooner than PUBLISH_MEMORY the oldest go first; it is
#: more than a queue ends within one call's deadline.
MOST: Final = 500_000
_PARTS: Final = 4


class Recent:
    """Id → topic of what succeeded, for at least `keep` seconds. Whole generations are dropped, never single ids."""

    __slots__ = ("_keep", "_most", "_parts", "_span")

    def __init__(self, keep: float = PUBLISH_MEMORY, most: int = MOST) -> None:
        self._keep = keep
        self._span = keep / _PARTS
        self._most = max(1, most // _PARTS)
        self._parts: deque[tuple[float, dict[str, str]]] = deque()  # newest last

    def current(self, now: float) -> dict[str, str]:
        """The dict into which what ends now is written."""
        parts = self._parts
        if not parts or now - parts[-1][0] >= self._span or len(parts[-1][1]) >= self._most:
            self.turn(now)
            parts.append((now, {}))
            while (
                len(parts) > _PARTS + 1 and sum(len(ids) for _, ids in parts) > self._most * _PARTS
            ):
                parts.popleft()
        return parts[-1][1]

    def turn(self, now: float) -> None:
        """Forget what is old enough."""
        parts = self._parts
        while parts and now >= parts[0][0] + self._keep + self._span:
            parts.popleft()

    def due(self) -> float | None:
        """When `turn` next forgets something; None: there is nothing."""
        return self._parts[0][0] + self._keep + self._span if self._parts else None

    def get(self, task_id: str) -> str | None:
        """The topic of an id that is remembered, or None."""
        for _, ids in self._parts:
            topic = ids.get(task_id)
            if topic is not None:
                return topic
        return None

    def shift(self, by: float) -> None:
        """Move all times by that many seconds."""
        self._parts = deque((start + by, ids) for start, ids in self._parts)

    def dump(self) -> list[Any]:
        """Plain values."""
        return [[start, ids] for start, ids in self._parts]

    def load(self, value: list[Any]) -> None:
        """Take over what `dump` gave."""
        self._parts = deque((start, dict(ids)) for start, ids in value)

    def __len__(self) -> int:
        return sum(len(ids) for _, ids in self._parts)
