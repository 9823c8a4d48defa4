"""What one client remembers from claim to claim: where to look, and whose turn it is. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from millgate.brokers.postgres.arrays import Bigints, Floats, Ints

#: Seconds of looking that tell of many dead entries before the first live one: an old transaction is open somewhere.
_SLOW: Final = 0.002
_TIMES: Final = 3
_LEAST: Final = 2.0  # of 20 claims a second fewer than one in 20 looks at everything: their p95 does not feel it
_SHARE: Final = 20.0  # looking at everything takes at most 1/20 of the time
_LANES: Final = 8
_NOTHING: Final = (None, None)


class Hints:
    """While looking is slow, claims start where the last one ended, and look at everything only now and then: rows that
    come back lie below. While it is quick they always look at everything."""

    def __init__(self) -> None:
        self._until = 0.0
        self._slow = 0
        self._lanes: dict[int, int] = {}

    def columns(self, now: float) -> tuple[Any, Any]:
        """Lanes and where to start in them; nothing while all is to be looked at."""
        if now >= self._until or not self._lanes:
            return _NOTHING
        return Ints(list(self._lanes)), Bigints(list(self._lanes.values()))

    def claimed(self, lanes: Sequence[tuple[int, int]]) -> None:
        """Note the last (lane, seq) that was handed over."""
        for lane, seq in lanes:
            self._lanes.pop(lane, None)
            self._lanes[lane] = seq
        while len(self._lanes) > _LANES:
            del self._lanes[next(iter(self._lanes))]

    def looked(self, now: float, cost: float) -> None:
        """Note what looking cost, in seconds. Once may be chance: a first plan, a busy machine."""
        if now < self._until:
            return
        self._slow = self._slow + 1 if cost > _SLOW else 0
        if self._slow >= _TIMES:
            self._until = now + max(_LEAST, _SHARE * cost)

    def forget(self) -> None:
        """Look at everything next time: something was given back."""
        self._lanes.clear()


class Turns:
    """How far each topic is ahead in the weighted turn, as the server reckoned it last."""

    def __init__(self) -> None:
        self._passes: dict[int, float] = {}

    def columns(self) -> tuple[Any, Any]:
        """Topics and their passes."""
        if not self._passes:
            return _NOTHING
        return Ints(list(self._passes)), Floats(list(self._passes.values()))

    def note(self, topics: Sequence[int] | None, passes: Sequence[float] | None) -> None:
        """Take over what the server answered; topics that did not compete join in at the front."""
        if topics and passes:
            self._passes = dict(zip(topics, passes, strict=True))
