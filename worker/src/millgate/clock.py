"""The one door to time: everything else is handed a clock, so that a test can turn it."""

from __future__ import annotations

import time

from millgate.hints import Protocol

# Linux has it; elsewhere the next best.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def written(seconds: float) -> str:
    """A moment in seconds since 1970 as it is written everywhere: ISO 8601, in UTC."""
    from datetime import UTC, datetime, timedelta  # children write no moments

    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # beyond the calendar, or no number
        return str(seconds)
    exact = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=exact).replace("+00:00", "Z")


class Clock(Protocol):
    """Three questions about time."""

    def now(self) -> float:
        """Seconds since 1970 UTC: for what people and brokers compare."""

    def monotonic(self) -> float:
        """Seconds that never step back and go on counting while the machine sleeps."""

    def sleep(self, seconds: float) -> None:
        """Wait that long."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        # CLOCK_MONOTONIC stands still in suspend; a lease at the broker does not.
        return time.clock_gettime(_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
