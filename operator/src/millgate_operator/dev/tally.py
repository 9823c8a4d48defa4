"""What a run comes to: how many tasks of a topic ended how and after which wait; what memory a worker took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any, Final

from millgate.stats import Stats, TopicStats

#: Neighbouring buckets of the histogram differ by this factor: a quantile is right within half of it.
_STEP: Final = 1.05
_SMALLEST: Final = 0.0005
#: Events of a worker's log that end a task's stay in it, and reasons for a child's end.
_TASK_ENDED: Final = frozenset(
    {"task succeeded", "task buried", "task goes back", "task cancelled"}
)
_RECYCLED: Final = frozenset({"MaxRSS", "MaxTasks", "MaxLifetime", "Defunct"})
_EXPECTED: Final = frozenset({"Drained", "NotReady"})


@dataclass(slots=True)
class Waits:
    """A histogram of seconds with buckets that grow by 5 %, so that a run of any length takes no more memory."""

    buckets: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        bucket = max(0, ceil(log(max(seconds, _SMALLEST) / _SMALLEST, _STEP)))
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1

    def quantile(self, share: float) -> float | None:
        """The value that this share of all is at most; None: there are none."""
        left = ceil(share * self.count)
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return float(_SMALLEST * _STEP ** (bucket - 0.5)) if bucket else _SMALLEST
        return None


@dataclass(slots=True)
class TopicTally:
    """One topic's run."""

    done: int | None = 0
    failed: int | None = 0
    waits: Waits = field(default_factory=Waits)


@dataclass(slots=True)
class WorkerTally:
    """One worker's run."""

    peak: int | None = None  # bytes of the worker with everything below it
    recycled: int = 0  # children replaced after a task
    #: Children that ended within a task: killed at a ceiling or timeout, or crashed.
    stopped: int = 0
    tasks: int = 0


class Tally:
    """Gathers one queue's figures from the broker's stats and the workers' log lines."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTally] = {}
        self.workers: dict[str, WorkerTally] = {}
        self._before: Mapping[str, TopicStats] | None = None

    def begin(self, stats: Stats) -> None:
        """What the counters show now is not of this run."""
        self._before = stats.topics

    def read(self, stats: Stats) -> None:
        """Take in one reading."""
        before = self._before or {}
        for name, topic in stats.topics.items():
            tally = self.topics.setdefault(name, TopicTally())
            old = before.get(name, TopicStats(completed=0, failed=0))
            tally.done = _since(topic.completed, old.completed)
            tally.failed = _since(topic.failed, old.failed)
        for row in stats.workers:
            self.weigh(row.name, row.beat.rss)

    def weigh(self, worker: str, rss: int | None) -> None:
        """Take in what a worker weighs at this moment; None: unknown."""
        if rss is not None:
            tally = self.workers.setdefault(worker, WorkerTally())
            tally.peak = max(tally.peak or 0, rss)

    def line(self, worker: str, text: str, verbose: bool) -> str | None:
        """Take in a worker's log line; answers what is worth showing of it, or None."""
        record = _record(text)
        if record is not None:
            self._count(worker, record)
        return shown(text, verbose)

    def _count(self, worker: str, record: Mapping[str, Any]) -> None:
        tally = self.workers.setdefault(worker, WorkerTally())
        event, topic = str(record["event"]), record.get("topic")
        if event in _TASK_ENDED and "seconds" in record:  # without, it never started here
            tally.tasks += 1
            waited = record.get("waited")
            if isinstance(waited, int | float) and isinstance(topic, str):
                self.topics.setdefault(topic, TopicTally()).waits.add(waited)
        elif event == "child ended":
            reason = record.get("reason")
            tally.recycled += reason in _RECYCLED
            tally.stopped += reason not in _RECYCLED | _EXPECTED


def shown(text: str, verbose: bool) -> str | None:
    """What is worth showing of a line that a program of ours printed: all that is no log record, and troubles."""
    record = _record(text)
    if record is None:
        return text or None
    spoken = record["event"] == "output" or record.get("level") in ("warning", "error")
    return _words(record) if spoken or verbose else None


def _words(record: Mapping[str, Any]) -> str:
    """One line; what a task printed as it is, a traceback below."""
    if record["event"] == "output":
        return str(record.get("text", ""))
    fields = {
        name: value
        for name, value in record.items()
        if name not in ("time", "level", "event", "traceback") and value not in (None, "")
    }
    details = " ".join(f"{name}={value}" for name, value in fields.items())
    line = f"{record.get('level')} {record['event']} {details}".rstrip()
    traceback = str(record.get("traceback") or "").rstrip()
    return f"{line}\n{traceback}" if traceback else line


def _record(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record else None


def _since(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before
