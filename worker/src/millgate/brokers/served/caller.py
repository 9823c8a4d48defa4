"""Who makes a call."""

from __future__ import annotations

from millgate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end: one broker object of one process, and the queue that it means."""

    client: str
    queue: str
