"""Notices that this process was frozen, or that a clock jumped, before anything is settled on old leases."""

from __future__ import annotations

from typing import Final

from millgate.clock import Clock

#: Seconds that wall and monotonic clock may move apart before it counts as a jump.
JUMP: Final = 5.0
_SHORTEST: Final = 0.5


class Pulse:
    """The io thread beats; whoever is about to settle asks whether the beats came as they should."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._offset = clock.now() - self._last
        self._suspect = False

    def beat(self, lease: float | None) -> None:
        """The io thread is alive; `lease` is the shortest held."""
        self.look(lease)
        self._last = self._clock.monotonic()

    def look(self, lease: float | None) -> bool:
        """Whether the leases are to be validated before anything is settled."""
        now = self._clock.monotonic()
        offset = self._clock.now() - now
        gap = max(_SHORTEST, (lease if lease is not None else 60.0) / 3)
        if now - self._last > gap or abs(offset - self._offset) > JUMP:
            self._suspect = True
        self._offset = offset
        return self._suspect

    def validated(self) -> None:
        """The broker has said which leases still hold."""
        self._last = self._clock.monotonic()
        self._suspect = False

    def age(self) -> float:
        """Seconds since the last beat, for liveness."""
        return self._clock.monotonic() - self._last
