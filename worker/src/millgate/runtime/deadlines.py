"""The page by which the guardian sees which children are watched over by a supervisor that still moves.

Imports little: the guardian does, and stays small.
"""

from __future__ import annotations

import mmap
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_NANO: Final = 1_000_000_000
#: Children that can be watched over: as many as a worker may have, and for each the one that is to follow it.
ROWS: Final = 512
_SIZE: Final = 16 * ROWS


class Deadlines:
    """A pid and a deadline (monotonic) for each child: whoever has not moved it on by then is frozen."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor`: of a page that another process has made; None: make one."""
        if descriptor is None:
            descriptor = os.memfd_create("millgate-deadlines", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, _SIZE)
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, _SIZE)
        self._words = memoryview(self._map).cast("Q")

    def set(self, row: int, pid: int, deadline: float) -> None:
        """Watch over `pid` until its row is cleared or moved on."""
        if row < ROWS:
            self._words[2 * row] = 0  # never a pid beside another one's deadline
            self._words[2 * row + 1] = int(deadline * _NANO)
            self._words[2 * row] = pid

    def move(self, row: int, deadline: float) -> None:
        """Put off the deadline of a row."""
        if row < ROWS:
            self._words[2 * row + 1] = int(deadline * _NANO)

    def clear(self, row: int) -> None:
        """Watch over this row no more."""
        if row < ROWS:
            self._words[2 * row] = 0

    def passed(self, now: float) -> list[tuple[int, int]]:
        """Rows and pids whose deadline has passed."""
        words, mark = self._words, int(now * _NANO)
        return [
            (row, words[2 * row])
            for row in range(ROWS)
            if words[2 * row] and words[2 * row + 1] < mark
        ]
