"""The broker's time: seconds since 1970 that never step by themselves, whatever becomes of the machine's clock.

It follows the machine's clock by running a tenth faster or slower, where that is seconds off. A clock that was set by
more is not followed: whoever has the time says what it was set to, so that what lasts a while is moved along first.
"""

from __future__ import annotations

from typing import Final

from millgate.clock import Clock

_SLEW: Final = 0.1
_CLOSE: Final = 0.001  # seconds of difference that are left alone
_FAR: Final = 10.0  # seconds of difference that are too many to be made good slowly
#: Seconds between two looks at clocks, after which they do not tell of one moment.
_STILL: Final = 1.0


class Steady:
    """Time that goes forward at nearly the machine's pace."""

    def __init__(self, clock: Clock, earliest: float = 0.0) -> None:
        """Begin now, or at `earliest`, where an earlier life of the broker stopped, when that is later."""
        self._clock = clock
        self._at = clock.monotonic()
        self._now = max(clock.now(), earliest)

    def now(self) -> float:
        """Seconds since 1970; never less than the last answer, but for a `jump`."""
        at = self._clock.monotonic()
        passed = at - self._at
        if passed > 0:
            self._at = at
            self._now += passed
            wrong = self._clock.now() - self._now
            if _CLOSE < abs(wrong) <= _FAR:
                most = passed * _SLEW
                self._now += max(-most, min(most, wrong))
        return self._now

    def set_to(self) -> float | None:
        """What the machine's clock was set to, when that is too far off to be followed slowly; None: it was not."""
        at = self._clock.monotonic()
        wall = self._clock.now()
        if self._clock.monotonic() > at + _STILL:
            return None
        return wall if abs(wall - (self._now + at - self._at)) > _FAR else None

    def jump(self, now: float) -> None:
        """Go on from there."""
        self._at, self._now = self._clock.monotonic(), now
