"""The phases of a drain, from the signal to the exit: pure, over the time that has passed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

#: Seconds before the deadline at which tasks are asked to stop, and at which what still runs is given back.
_ASK: Final = 15.0
_GIVE_BACK: Final = 5.0
#: The deadline after a second signal.
_HURRY: Final = 4.0


class Stage(IntEnum):
    """What a worker that stops is about."""

    WORKING = 0
    FINISHING = 1  # claims nothing, lets everything run
    ASKING = 2  # running tasks are asked to come to an end
    GIVING_BACK = 3  # what still runs is stopped and given back, charged to nobody


@dataclass(frozen=True, slots=True)
class Drain:
    """When the signal came and how long everything may take; seconds, monotonic."""

    began: float | None = None
    timeout: float = 0.0

    @classmethod
    def begin(cls, now: float, timeout: float) -> Drain:
        """The first signal."""
        return cls(now, timeout)

    def hurry(self, now: float) -> Drain:
        """Another signal: be done in seconds. It never makes a drain longer."""
        if self.began is None:
            return self
        return Drain(self.began, min(self.timeout, now - self.began + _HURRY))

    @property
    def asks_at(self) -> float:
        """Seconds after the signal; short timeouts keep half for the tasks."""
        return self.timeout - min(_ASK, self.timeout / 2)

    @property
    def gives_back_at(self) -> float:
        """Seconds after the signal; a quarter of short timeouts is kept for the broker."""
        return self.timeout - min(_GIVE_BACK, self.timeout / 4)

    def stage(self, now: float) -> Stage:
        """Where the drain is."""
        if self.began is None:
            return Stage.WORKING
        passed = now - self.began
        if passed >= self.gives_back_at:
            return Stage.GIVING_BACK
        return Stage.ASKING if passed >= self.asks_at else Stage.FINISHING

    def over(self, now: float) -> bool:
        """Whether the time is up: exit with what there is."""
        return self.began is not None and now - self.began >= self.timeout

    def left(self, now: float) -> float | None:
        """Seconds until the next stage; None: no drain."""
        if self.began is None:
            return None
        passed = now - self.began
        for mark in (self.asks_at, self.gives_back_at, self.timeout):
            if mark > passed:
                return mark - passed
        return 0.0
