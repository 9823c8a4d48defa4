"""The phases of a drain, from the signal to the exit: pure, over the time that has passed."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from millgate.frozen import dataclass

#: Seconds before the deadline at which tasks are asked to stop, and at which what still runs is given back.
_ASK: Final = 15.0
_GIVE_BACK: Final = 5.0
#: After a second signal: seconds until what runs is given back, and until the end.
_HURRY: Final = (2.0, 4.0)
#: Seconds in which a second signal is the first one again: whoever signals every process of a worker, as systemd does,
#: reaches the supervisor itself and through the guardian.
_ECHO: Final = 0.5


class Stage(IntEnum):
    """What a worker that stops is about."""

    WORKING = 0
    FINISHING = 1  # claims nothing, lets everything run
    ASKING = 2  # running tasks are asked to come to an end
    GIVING_BACK = 3  # what still runs is stopped and given back, charged to nobody


@dataclass(frozen=True, slots=True)
class Drain:
    """When a drain began and when its stages are due; seconds, monotonic. `began` is None without a signal."""

    began: float | None = None
    asks: float = 0.0
    gives_back: float = 0.0
    ends: float = 0.0

    @classmethod
    def begin(cls, now: float, timeout: float) -> Drain:
        """The first signal. Short timeouts keep half for the tasks and a quarter for the broker."""
        ends = now + timeout
        return cls(now, ends - min(_ASK, timeout / 2), ends - min(_GIVE_BACK, timeout / 4), ends)

    def echoes(self, now: float) -> bool:
        """Whether a signal that comes now is the one that began the drain, on another way."""
        return self.began is not None and now - self.began < _ECHO

    def hurry(self, now: float) -> Drain:
        """Another signal: ask now, be done in seconds. It never makes a drain longer."""
        back, end = _HURRY
        return Drain(
            self.began,
            min(self.asks, now),
            min(self.gives_back, now + back),
            min(self.ends, now + end),
        )

    def stage(self, now: float) -> Stage:
        """Where the drain is."""
        if self.began is None:
            return Stage.WORKING
        if now >= self.gives_back:
            return Stage.GIVING_BACK
        return Stage.ASKING if now >= self.asks else Stage.FINISHING

    def over(self, now: float) -> bool:
        """Whether the time is up: exit with what there is."""
        return self.began is not None and now >= self.ends
