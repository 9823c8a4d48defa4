"""How long to wait before a failed task runs again: pure arithmetic, the random part handed in."""

from __future__ import annotations

from enum import StrEnum

from millgate.frozen import dataclass


class BackoffType(StrEnum):
    """The shape of the waits."""

    EXPONENTIAL = "Exponential"
    FIXED = "Fixed"


class Jitter(StrEnum):
    """Full jitter spreads retries over the whole wait, so that they do not come back as one wave."""

    FULL = "Full"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts, in seconds."""

    type: BackoffType = BackoffType.EXPONENTIAL
    initial: float = 2.0
    factor: float = 2.0
    max: float = 600.0
    jitter: Jitter = Jitter.FULL

    def delay(self, failures: int, draw: float) -> float:
        """Seconds until the next attempt after `failures` (≥ 1) failed ones; `draw` is uniform in [0, 1).

        Full jitter as in Brooker, "Exponential Backoff and Jitter" (2015): uniform between 0 and the capped
        exponential wait.
        """
        step = self.initial
        if self.type is BackoffType.EXPONENTIAL:
            # the exponent is bounded so that a huge count cannot overflow a float
            try:
                step = self.initial * self.factor ** min(failures - 1, 64)
            except OverflowError:
                step = self.max
        step = min(step, self.max)
        return step * draw if self.jitter is Jitter.FULL else step


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds on what may go wrong with one message.

    `attempts` counts runs that the task itself ended badly; `losses` counts runs whose worker or child died;
    `interruptions` how often it was given back on purpose. Waits for a lock or a time are among these, and end no
    message themselves, so the last bound is far away: it is for a message whose runs drive its workers off.
    """

    attempts: int = 4
    losses: int = 5
    interruptions: int = 10_000
    backoff: Backoff = Backoff()
