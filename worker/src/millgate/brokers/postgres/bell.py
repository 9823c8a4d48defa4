"""A bell between threads that can be waited for together with sockets; it lasts as long as somebody holds it."""

from __future__ import annotations

import os
from contextlib import suppress


class Bell:
    """Rung by some, heard once by one; a ring before the wait is kept. Safe in signal handlers."""

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        """Raises OSError when no descriptor is left."""
        self._handle = -1
        self._handle = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Readable when it was rung."""
        return self._handle

    def ring(self) -> None:
        """Ring."""
        with suppress(BlockingIOError):  # it has been rung often enough
            os.eventfd_write(self._handle, 1)

    def rung(self) -> bool:
        """Whether it was rung since this was last asked."""
        try:
            os.eventfd_read(self._handle)
        except BlockingIOError:
            return False
        return True

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)  # not before: another thread may be waiting for it
