"""The token bucket: how many may start now, and when the next one may. Pure arithmetic."""

from __future__ import annotations

from dataclasses import replace

from millgate.frozen import dataclass
from millgate.limits import Rate

_DUST = 1e-9  # what adding floats may lose


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` at the time `at`; a fraction is on its way to a whole one."""

    tokens: float
    at: float

    def shifted(self, by: float) -> Bucket:
        """The same bucket by a clock that was set."""
        return replace(self, at=self.at + by)


def full(rate: Rate, now: float) -> Bucket:
    """A bucket nobody has drawn from."""
    return Bucket(float(rate.capacity), now)


def filled(bucket: Bucket, rate: Rate, now: float) -> Bucket:
    """The bucket at `now`: what time has added, never above its capacity; a clock that stepped back adds nothing."""
    gained = max(0.0, now - bucket.at) * rate.count / rate.per
    return Bucket(min(float(rate.capacity), bucket.tokens + gained), max(now, bucket.at))


def whole(bucket: Bucket) -> int:
    """Starts that the bucket allows."""
    return int(bucket.tokens + _DUST)


def drawn(bucket: Bucket, count: int) -> Bucket:
    """The bucket after that many starts."""
    return replace(bucket, tokens=bucket.tokens - count)


def next_in(bucket: Bucket, rate: Rate) -> float:
    """Seconds until the bucket allows a start; 0 when it does now."""
    return 0.0 if whole(bucket) else (1 - bucket.tokens) * rate.per / rate.count
