"""Whether a process that serves queues was kept from hearing anybody: it was stopped, slept with its machine, or was
held up by what it stores in. Pure.

Callers that would have renewed something in that time could not, so none of it is to count against them.
"""

from __future__ import annotations

from typing import Final

#: Seconds of it that are taken for ordinary work.
_ORDINARY: Final = 1.0


class Attention:
    """Told each time that the process has waited for callers; all times are seconds, monotonic."""

    def __init__(self, now: float) -> None:
        """Begin as one that has just waited."""
        self._last = now
        self._took = 0.0  # beside waiting, the last time

    def returned(self, now: float, meant: float) -> bool:
        """It has waited for `meant` seconds, or less; whether it was away between the last time and now.

        Times that are long again and again are load: what is due then comes to pass.
        """
        before, self._took = self._took, now - self._last - meant
        self._last = now
        return self._took > max(_ORDINARY, 2 * before)
