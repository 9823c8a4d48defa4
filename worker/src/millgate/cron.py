"""Schedules: which moments a cron expression names, and which of them are due. Pure: the time is handed in.

Days on which a clock jumps follow Debian's cron. A schedule at fixed times runs once for each: a time that the
clock skips runs when the skipped hour is over, a time that comes twice runs the first time. A schedule whose minute
or hour begins with `*` runs by real time, without pause or double.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.hints import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import tzinfo

_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: Seconds by which a slot may be late and is still on time.
GRACE: Final = 60.0
#: Most slots that are made up for after a stop, newest last.
MAX_CATCH_UP: Final = 100
_FIRST_LOOK: Final = 3600.0  # seconds back


class Misfire(StrEnum):
    """What becomes of slots that passed while nobody could fire them."""

    SKIP = "Skip"  # they are left out
    ONCE = "Once"  # the newest of them is made up for
    ALL = "All"  # each is made up for, at most `catch_up` of them, the newest


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task runs by itself: five fields or an alias like @daily, in a time zone by its name."""

    cron: str
    timezone: str = "UTC"
    misfire: Misfire = Misfire.ONCE
    catch_up: int = MAX_CATCH_UP

    def check(self) -> None:
        """Raise InvalidInput for an expression or zone that cannot be used, or that names no moment at all."""
        if not 1 <= self.catch_up <= MAX_CATCH_UP:
            raise InvalidInput(f"catch_up {self.catch_up}: use 1 to {MAX_CATCH_UP}")
        if next(self.slots(0.0), None) is None:
            raise InvalidInput(f"cron {self.cron!r} names no moment in 50 years")

    def slots(self, after: float) -> Iterator[float]:
        """The moments after `after`, in order, without end; seconds since 1970. Raises InvalidInput."""
        from datetime import datetime

        from cronsim import CronSim, CronSimError

        zone = _zone(self.timezone)
        fields = _fields(self.cron)
        try:
            moments = CronSim(fields, datetime.fromtimestamp(after, zone))
        except CronSimError as error:
            raise InvalidInput(
                f"cron {self.cron!r}: {error}; five fields, e.g. */5 * * * *"
            ) from None
        last = after
        for moment in moments:
            slot = moment.timestamp()
            # A start in an hour that comes twice answers moments of its first pass; two skipped times may become one.
            if slot > last:
                last = slot
                yield slot

    def next(self, after: float) -> float | None:
        """The first moment after `after`; None when there is none in 50 years."""
        return next(self.slots(after), None)

    def due(self, since: float, now: float) -> list[float]:
        """The slots to fire now, in order; `since` is the last slot that fired, or when the schedule began.

        The newest slot is on time for GRACE seconds, whatever the policy; earlier ones are missed.
        """
        if self.misfire is Misfire.ALL:
            return self._newest(since, now, self.catch_up)
        newest = self._newest(since, now, 1)
        if self.misfire is Misfire.SKIP:
            return [slot for slot in newest if now - slot <= GRACE]
        return newest

    def _newest(self, since: float, now: float, count: int) -> list[float]:
        """The newest `count` slots in (since, now]. Looks back further and further: years may have passed."""
        look = _FIRST_LOOK
        while True:
            start = max(since, now - look)
            found: list[float] = []
            for slot in self.slots(start):
                if slot > now:
                    break
                found.append(slot)
            if len(found) >= count or start <= since:
                return found[-count:]
            look *= 8


def _fields(text: str) -> str:
    fields = _ALIASES.get(text.strip().lower(), text)
    if len(fields.split()) != 5:
        known = ", ".join(_ALIASES)
        raise InvalidInput(
            f"cron {text!r}: write five fields (minute hour day month weekday), or one of {known}"
        )
    return fields


def _zone(name: str) -> tzinfo:
    from datetime import UTC

    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise InvalidInput(
            f"timezone {name!r} is not known here; write it like Europe/Berlin, or install tzdata"
        ) from None
