"""What a runtime answers to a running task, in the hands of a test."""

from __future__ import annotations


class FakeSurroundings:
    """Remembers what the task said; answers what the test set."""

    def __init__(self) -> None:
        self.reported: list[bytes] = []
        self.is_cancelled = False
        self.is_soft_expired = False
        self.held: dict[str, int] = {}
        self.lost: set[str] = set()
        self.fences = 0

    def progress(self, value: bytes) -> None:
        self.reported.append(value)

    def cancelled(self) -> bool:
        return self.is_cancelled

    def soft_expired(self) -> bool:
        return self.is_soft_expired

    def acquire(self, name: str, ttl: float, wait: float) -> int | None:
        if name in self.held:
            return None
        self.fences += 1
        self.held[name] = self.fences
        return self.fences

    def release(self, name: str, fence: int) -> bool:
        return self.held.pop(name, None) == fence and name not in self.lost
