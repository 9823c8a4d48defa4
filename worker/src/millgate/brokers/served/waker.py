"""A bell between threads that can be waited for together with a socket."""

from __future__ import annotations

import os
import select
from contextlib import suppress


class Waker:
    """Rung by one thread, heard once by another; a ring before the wait is kept."""

    _reader = _writer = -1

    def __init__(self) -> None:
        """Raises OSError when no descriptors are left."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def fileno(self) -> int:
        """Readable when it was rung."""
        return self._reader

    def ring(self) -> None:
        """Ring."""
        with suppress(BlockingIOError):  # a full pipe has been rung often enough
            os.write(self._writer, b"!")

    def rung(self) -> bool:
        """Whether it was rung since this was last asked."""
        try:
            return bool(os.read(self._reader, 4096))
        except BlockingIOError:
            return False

    def wait(self, seconds: float) -> bool:
        """Wait for a ring, at most that long; the ring is kept."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def __del__(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
            os.close(self._writer)
