"""Runs that are told to end and those that did not listen: soft and hard timeouts, cancellations, lost leases.

Used by the io thread. The signal comes from this process, so that a task is interrupted in any system call and any
loop that looks at signals, whatever else holds the interpreter.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from millgate.clock import Clock
from millgate.runtime.handle import Child
from millgate.runtime.ledger import Run
from millgate.runtime.recycle import Because
from millgate.runtime.table import LOOK

#: Seconds that a cancelled run has to end by itself.
CANCEL_GRACE: Final = 5.0
#: Seconds that a run without its lease has, when it shares its child with others.
_LOST_GRACE: Final = 1.0
#: Seconds after which a run is told once more to come to an end: a coroutine that blocks its loop hears only that.
_AGAIN: Final = 1.0
_TIMES: Final = 2


class Overtime:
    """Tells and kills."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._slots = slots
        self._clock = clock

    def look(self, children: Collection[Child], now: float) -> float | None:
        """Act on what is due; answers the seconds until something else may be, None: nothing in sight."""
        soonest: float | None = None
        for child in children:
            if not child.runs:
                continue
            for seq, run in child.started():
                left = self._look_at(child, seq, run, now - child.table.started_at(seq), now)
                soonest = left if soonest is None else min(soonest, left)
        return soonest

    def _look_at(self, child: Child, seq: int, run: Run, age: float, now: float) -> float:
        if run.stopping is not None:
            grace = _LOST_GRACE if run.stopping is Because.LEASE_LOST else CANCEL_GRACE
            if now - run.stopped_at >= grace:
                child.kill(run.stopping)
            return max(0.01, run.stopped_at + grace - now)
        if age >= run.terms.hard:
            run.stopping, run.stopped_at = Because.HARD_TIMEOUT, now
            child.kill(Because.HARD_TIMEOUT)
            return CANCEL_GRACE
        if run.terms.soft is not None and not run.soft:
            if age < run.terms.soft:
                return run.terms.soft - age
            self.expire(child, seq, run)
        if not run.soft or run.asked >= _TIMES:
            return run.terms.hard - age
        if now - run.asked_at >= _AGAIN:
            self.expire(child, seq, run)
        return min(run.terms.hard - age, _AGAIN)

    def expire(self, child: Child, seq: int, run: Run) -> None:
        """Tell a run to come to an end."""
        run.soft = True
        run.asked += 1
        run.asked_at = self._clock.monotonic()
        child.table.expire(seq)
        child.signal(LOOK)

    def cancel(self, child: Child, seq: int, run: Run) -> None:
        """Tell a run to stop for good; it is killed if it does not listen."""
        if run.stopping is None:
            run.stopping, run.stopped_at = Because.CANCELLED, self._clock.monotonic()
            child.table.cancel(seq)
            child.signal(LOOK)

    def lost(self, child: Child, seq: int, run: Run) -> None:
        """Stop a run that is another worker's by now."""
        run.stopping, run.stopped_at = Because.LEASE_LOST, self._clock.monotonic()
        child.table.cancel(seq)
        if self._slots == 1:
            child.kill(Because.LEASE_LOST)
        else:
            child.signal(LOOK)
