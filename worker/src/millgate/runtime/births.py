"""Whether any process has been born: one read tells what else would take a walk through every tree."""

from __future__ import annotations

import os
from contextlib import suppress

_LOADAVG = "/proc/loadavg"


class Births:
    """The number that the kernel gave out last to a process or thread of this PID namespace.

    Whoever is born in a namespace inside this one has a number here as well. While it stays, no tree has new members.
    """

    def __init__(self, path: str = _LOADAVG) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def latest(self) -> int | None:
        """That number; None: it cannot be told, as in a sandbox that shows 0 to everybody."""
        try:
            return int(os.pread(self._file, 128, 0).split()[-1]) or None
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Let the file go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
