"""What a session needs of whatever carries its calls: one call at a time, sent and answered as whole payloads."""

from __future__ import annotations

import math
from typing import Protocol

from millgate.errors import BrokerUnavailable


class Hangup(BrokerUnavailable):
    """The broker closed the connection."""


class Link(Protocol):
    """A way to the broker. Whoever holds it has it alone; `end` is in monotonic seconds everywhere."""

    def send(self, payload: bytes, end: float) -> None:
        """Send one payload before `end`. Raises BrokerUnavailable and its kinds."""

    def receive(self, end: float, silence: float = math.inf) -> bytes:
        """The next payload, when it comes before `end`, and nothing of it for no longer than `silence` seconds. Raises
        BrokerUnavailable and its kinds."""

    def readable(self, other: int, end: float) -> bool:
        """Wait for a payload to begin, for the handle `other` to be readable, or for `end`; whether it was the
        first."""

    def close(self) -> None:
        """Give it up."""
