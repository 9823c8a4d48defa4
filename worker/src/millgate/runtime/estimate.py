"""How long tasks take, learned by name, and how many may therefore be handed out at once: pure arithmetic."""

from __future__ import annotations

from typing import Final

#: Seconds of work that a child may hold beyond what it runs.
AHEAD: Final = 0.05
#: Most jobs in one frame; two frames may be in a child at once.
FRAME: Final = 64
#: Most claims held for one child, those that are still in the supervisor included.
MOST: Final = 512
#: Weights of the latest run: a task that turned out long is believed sooner than one that turned out short.
_UP: Final = 0.5
_DOWN: Final = 0.1


class Runtimes:
    """What is known of the tasks' lengths in seconds; not safe for threads."""

    def __init__(self) -> None:
        self._by_name: dict[str, float] = {}
        self._mean: float | None = None

    def learn(self, name: str, seconds: float) -> None:
        """One run of a task took so long."""
        old, mean = self._by_name.get(name, seconds), self._mean
        self._by_name[name] = old + (_UP if seconds > old else _DOWN) * (seconds - old)
        if mean is None:
            mean = seconds
        self._mean = mean + (_UP if seconds > mean else _DOWN) * (seconds - mean)

    def expect(self, name: str) -> float | None:
        """How long the next run of a task may take; None: it never ran here."""
        return self._by_name.get(name)

    @property
    def mean(self) -> float | None:
        """How long the next run of any task may take, leaning to the long side; None: nothing ran here yet."""
        return self._mean

    def snapshot(self) -> dict[str, float]:
        """All that was learned, for the status."""
        return dict(self._by_name)


def ahead(expected: float | None, slots: int, most: int) -> int:
    """How many runs a child may hold beyond those that it runs, when each takes `expected` seconds."""
    if expected is None:
        return 0
    return min(most, int(AHEAD * slots / max(expected, 1e-6)))
