"""Quantities as people write them, and the limits made of them: durations, bytes, rates, backoff."""

from __future__ import annotations

import re

from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.hints import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
#: Milliseconds, so that "51ms" is read as the float that is nearest to 0.051.
_UNITS: Final = {"ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3, "d": 86400e3}
_BYTES = re.compile(r"^(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)?\Z")
_FACTOR: Final = {
    None: 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_PERCENT = re.compile(r"^(\d{1,3})%\Z")


def parse_duration(text: str | float | timedelta) -> float:
    """Seconds in "90s", "1h30m", "250ms", a timedelta, or a number that is seconds already.

    Raises InvalidInput for anything else.
    """
    if hasattr(text, "total_seconds"):  # `datetime` would be an import of every process
        return float(text.total_seconds())
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    text = str(text).strip()
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(f"{text!r} is not a duration; write it like 90s, 15m, 1h30m or 250ms")
    return sum(float(number) * _UNITS[unit] for number, unit in parts) / 1000


def format_duration(seconds: float) -> str:
    """The shortest exact form of whole milliseconds: 5400 → "1h30m"."""
    left = round(seconds * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_bytes(text: str | int) -> int:
    """Bytes in "400Mi", "1.5G" or a bare number. Raises InvalidInput for anything else."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _BYTES.match(str(text).strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not an amount of memory; write it like 400Mi, 2Gi or 500M")
    return int(float(match[1]) * _FACTOR[match[2]])


def format_bytes(amount: int) -> str:
    """The largest binary unit that keeps three digits: 419430400 → "400Mi"."""
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if amount >= size:
            return (
                f"{amount / size:.3g}{unit}" if amount < 1000 * size else f"{amount // size}{unit}"
            )
    return str(amount)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A memory ceiling: bytes, or a share (0 to 1) of the container's limit."""

    amount: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str | int) -> Ceiling:
        """Read "400Mi" or "80%". Raises InvalidInput for anything else."""
        match = _PERCENT.match(str(text).strip())
        if match is None:
            return cls(amount=parse_bytes(text))
        if not 1 <= int(match[1]) <= 100:
            raise InvalidInput(f"{text!r} is not between 1% and 100%")
        return cls(share=int(match[1]) / 100)

    def resolve(self, limit: int | None) -> int | None:
        """Bytes, given the container's limit; None when it is a share of no limit."""
        if self.amount is not None:
            return self.amount
        if limit is None or self.share is None:
            return None
        return int(limit * self.share)

    def __str__(self) -> str:
        return (
            f"{self.share * 100:.0f}%" if self.share is not None else format_bytes(self.amount or 0)
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket: `count` starts per `per` seconds, at most `burst` at once after a pause."""

    count: int
    per: float = 1.0
    burst: int | None = None

    @property
    def capacity(self) -> int:
        """Tokens that a full bucket holds."""
        return self.burst if self.burst is not None else self.count

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read "10/s", "100/5m" or "10/s burst 30". Raises InvalidInput for anything else."""
        match = re.match(r"^(\d+)/(\d*(?:\.\d+)?)(ms|s|m|h|d)(?: burst (\d+))?\Z", text.strip())
        if match is None or int(match[1]) < 1:
            raise InvalidInput(
                f"{text!r} is not a rate; write it like 10/s, 100/5m or 10/s burst 30"
            )
        per = float(match[2] or 1) * _UNITS[match[3]] / 1000
        return cls(int(match[1]), per, int(match[4]) if match[4] else None)

    def __str__(self) -> str:
        burst = f" burst {self.burst}" if self.burst is not None else ""
        return f"{self.count}/{format_duration(self.per)}{burst}"
