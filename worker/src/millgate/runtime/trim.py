"""Gives memory back that a task has freed but the C library keeps: what is free in the middle of the heap.

Blocks of a kilobyte to some dozens lie there once one small thing above them stays; a child of 120 MB had 10 MB after
12 ms of this. Nothing is done where that is not so: after a task the size is looked at, and the heap is trimmed only
when the child has grown by more than it is worth since it was last small.
"""

from __future__ import annotations

import os

from millgate.hints import Final

#: Bytes of growth that a trim is worth: some milliseconds, and the next task's page faults.
_WORTH: Final = 16 * 2**20
#: Seconds of a task after which its child is looked at, and between two looks when tasks are shorter.
LONG: Final = 0.005
_BETWEEN: Final = 1.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Trimmer:
    """One for each child."""

    def __init__(self) -> None:
        self.due = 0.0  # monotonic: from then on any task is worth a look
        self._low: int | None = None  # bytes that it had when it was last small
        self._trim = malloc_trim
        self._sizes = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def look(self, now: float) -> None:
        """See whether the child has grown, and trim the heap if so."""
        self.due = now + _BETWEEN
        size = self._size()
        if self._low is None or size < self._low:
            self._low = size
        elif size - self._low > _WORTH:
            self._trim()
            # What is left is in use: only growth beyond it is worth another trim.
            self._low = self._size()

    def _size(self) -> int:
        return int(os.pread(self._sizes, 128, 0).split()[1]) * _PAGE


def malloc_trim() -> None:
    """The C library's function; nothing where it has none, as musl."""
    core = __import__("_ctypes")
    try:
        function = core.dlsym(core.dlopen(None, 0), "malloc_trim")
    except OSError:
        return
    core.call_function(function, (0,))
