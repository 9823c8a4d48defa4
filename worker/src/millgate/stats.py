"""What a broker reports about its topics, as values. None means unknown, which is never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from millgate.fleet import WorkerRow
from millgate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class TopicStats:
    """One topic at one moment.

    `waiting` may start as far as time is concerned (blocked by a limit, key, rate or pause or not); `claimable` of
    them could be claimed now by workers with enough slots; `delayed` are not due yet. Counters count since the
    queue was created and never step back.
    """

    waiting: int | None = None
    claimable: int | None = None
    delayed: int | None = None
    leased: int | None = None
    dead: int | None = None
    #: Seconds that the oldest claimable message has been so; None: there is none.
    oldest: float | None = None
    enqueued: int | None = None
    started: int | None = None  # first attempts only, so that retries do not look like demand
    completed: int | None = None
    failed: int | None = None  # buried or cancelled for good
    declared: bool = False
    paused: bool = False
    dropped: int | None = None  # dead letters that went by their topic's bounds of number and age


@dataclass(frozen=True, slots=True)
class Stats:
    """All topics and workers, read in one round trip."""

    topics: Mapping[str, TopicStats] = field(default_factory=dict)
    workers: tuple[WorkerRow, ...] = ()
    revision: int = 0
    next_due: float | None = None  # seconds until the next delayed message is due
