"""A lock that threads can wait under, as threading's Condition: a child with one thread need not carry that module."""

from __future__ import annotations

from _thread import LockType, allocate_lock


class Bell:
    """Hold `lock` for both verbs. A wait may end without a ring: look again, as after any wait."""

    __slots__ = ("_waiting", "lock")

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self._waiting: list[LockType] = []

    def wait(self, seconds: float) -> None:
        """Let go of the lock until the bell rings, at most so long; then hold it again."""
        mine = allocate_lock()
        mine.acquire()
        self._waiting.append(mine)
        self.lock.release()
        try:
            mine.acquire(timeout=seconds)
        finally:
            self.lock.acquire()
            if mine in self._waiting:
                self._waiting.remove(mine)

    def ring(self) -> None:
        """Wake all that wait."""
        for waiting in self._waiting:
            waiting.release()
        self._waiting.clear()
