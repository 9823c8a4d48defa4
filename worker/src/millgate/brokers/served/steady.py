"""The broker's time: seconds since 1970 that never step, whatever becomes of the machine's clock.

It follows the machine's clock by running a tenth faster or slower. So a clock that is set an hour forward ends no
lease, and one that is set back holds none up.
"""

from __future__ import annotations

from typing import Final

from millgate.clock import Clock

_SLEW: Final = 0.1
_CLOSE: Final = 0.001  # seconds of difference that are left alone


class Steady:
    """Time that goes forward at nearly the machine's pace."""

    def __init__(self, clock: Clock, earliest: float = 0.0) -> None:
        """Begin now, or at `earliest`, where an earlier life of the broker stopped, when that is later."""
        self._clock = clock
        self._at = clock.monotonic()
        self._now = max(clock.now(), earliest)

    def now(self) -> float:
        """Seconds since 1970; never less than the last answer."""
        at = self._clock.monotonic()
        passed = at - self._at
        if passed > 0:
            self._at = at
            self._now += passed
            wrong = self._clock.now() - self._now
            if abs(wrong) > _CLOSE:
                most = passed * _SLEW
                self._now += max(-most, min(most, wrong))
        return self._now
