"""Whether the server takes messages: one of the brokerd's own goes round through its inbox, time and again. Pure.

A server under an alarm takes nothing from anybody and says so only to those that publish, so a brokerd without work
would not know why its workers fell silent. While no proof comes, time stands still for whatever must be renewed.
"""

from __future__ import annotations

from typing import Final

#: Seconds between two proofs.
EVERY: Final = 1.0
#: Seconds after which one that is under way is late.
LATE: Final = 0.5
#: Seconds after which another is sent: one may be lost, by a policy of the server or a hand that empties the queue.
AGAIN: Final = 5.0


class Proof:
    """The present state of the proofs; all times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self._sent: float | None = None  # the first that has not come
        self._last = now  # sent
        self._next = now
        self._held_up = False

    def due(self, now: float) -> bool:
        """Whether to send one; it counts as sent."""
        if now < (self._next if self._sent is None else self._last + AGAIN):
            return False
        self._last = now
        if self._sent is None:
            self._sent = now
        return True

    def came(self, now: float) -> None:
        """It came back."""
        self._held_up = self._held_up or self.late(now)
        self._sent = None
        self._next = now + EVERY

    def worked(self, seconds: float) -> None:
        """This process did something else for so long: in that time none could have come."""
        if self._sent is not None:
            self._sent += seconds

    def late(self, now: float) -> bool:
        """Whether one is under way for too long."""
        return self._sent is not None and now > self._sent + LATE

    def was_held_up(self) -> bool:
        """Whether one came back late since this was last asked."""
        held_up, self._held_up = self._held_up, False
        return held_up

    def wake_in(self, now: float) -> float:
        """Seconds until the next is due, or the present one is late."""
        return max(0.0, (self._next if self._sent is None else self._sent + LATE) - now)
