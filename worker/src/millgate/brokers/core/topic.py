"""One topic: its policy, its lane, what waits beside the lane, and its counters. Plain data."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator

from millgate.brokers.core import rate
from millgate.brokers.core.admit import Gate
from millgate.brokers.core.line import Line
from millgate.brokers.core.row import DELAYED, Dead, Row
from millgate.queues import Ordering, TopicPolicy

_SLACK = 64  # entries of `later` that are never worth a sweep


class Topic:
    """What is known of a topic. Whoever moves a row keeps the counters right in the same step."""

    __slots__ = (
        "bucket",
        "completed",
        "dead",
        "declared",
        "delayed",
        "dropped",
        "enqueued",
        "failed",
        "free",
        "gates",
        "held",
        "later",
        "leased",
        "limit",
        "line",
        "name",
        "parked",
        "passed",
        "paused",
        "policy",
        "started",
    )

    def __init__(self, policy: TopicPolicy, declared: bool) -> None:
        self.name = policy.name
        self.line = Line()
        self.gates: dict[str, Gate] = {}
        self.parked = 0
        #: Rows by the time at which they are due; `delayed` counts those that are still there.
        self.later: list[tuple[float, int, Row]] = []
        self.delayed = 0
        self.leased = 0
        self.held = False  # paused by hand
        self.passed = 0.0
        self.bucket: rate.Bucket | None = None
        self.enqueued = self.started = self.completed = self.failed = self.dropped = 0
        self.dead: OrderedDict[str, Dead] = OrderedDict()
        self.apply(policy, declared)

    def apply(self, policy: TopicPolicy, declared: bool) -> None:
        """Obey another policy from now on. Gates are the caller's business."""
        self.policy = policy
        self.declared = declared
        self.limit = policy.effective_limit
        self.free = self.limit is None and policy.rate is None
        self.paused = self.held or policy.paused

    def hold(self, held: bool) -> None:
        """Pause or resume it by hand."""
        self.held = held
        self.paused = held or self.policy.paused

    @property
    def open(self) -> bool:
        """Whether whatever is due may start: no limit, rate, key or order holds it back, and nobody has paused it."""
        policy = self.policy
        gated = policy.ordering is not Ordering.NONE or policy.effective_key_limit is not None
        return self.free and not self.paused and not gated

    @property
    def waiting(self) -> int:
        """Rows that are due."""
        return self.line.live + self.parked

    def gate_of(self, row: Row) -> Gate | None:
        """The gate that a row has to pass, made when it is the first of its key; None: it has none."""
        policy = self.policy
        if policy.ordering is Ordering.FIFO:
            name, limit = "", 1
        else:
            per_key = policy.effective_key_limit
            if per_key is None or row.key is None:
                return None
            name, limit = row.key, per_key
        gate = self.gates.get(name)
        if gate is None:
            gate = self.gates[name] = Gate(name, limit, policy.ordering is not Ordering.NONE)
        return gate

    def allowed(self, now: float) -> int:
        """Rows that the topic's own limits let start now; the queue's are not asked."""
        count = self.line.live
        if self.limit is not None:
            count = min(count, self.limit - self.leased)
        if count > 0 and self.policy.rate is not None:
            count = min(count, rate.whole(self.tokens(now)))
        return max(0, count)

    def tokens(self, now: float) -> rate.Bucket:
        """The bucket of a topic that has a rate, filled up to now."""
        limit = self.policy.rate
        assert limit is not None, "only asked of a topic with a rate"
        if self.bucket is None:
            self.bucket = rate.full(limit, now)
        self.bucket = rate.filled(self.bucket, limit, now)
        return self.bucket

    def put_later(self, row: Row, due: float) -> None:
        """Let a row wait for its time."""
        row.where, row.due = DELAYED, due
        self.delayed += 1
        heapq.heappush(self.later, (due, row.rank, row))

    def next_due(self) -> float | None:
        """When the first delayed row is due; None: there is none."""
        later = self.later
        while later and not _waits(later[0]):
            heapq.heappop(later)
        return later[0][0] if later else None

    def delayed_rows(self) -> Iterator[Row]:
        """The rows that wait for their time, in no promised order."""
        return (entry[2] for entry in self.later if _waits(entry))

    def left_later(self) -> None:
        """A delayed row was taken out; its `where` says so already."""
        self.delayed -= 1
        if len(self.later) > 2 * self.delayed + _SLACK:
            self.later = [entry for entry in self.later if _waits(entry)]
            heapq.heapify(self.later)

    def shift(self, by: float, now: float) -> None:
        """The clock was set to `now`: move with it what lasts a while; times that somebody named stay, or have come."""
        self.line.shift(by)
        self.bucket = None if self.bucket is None else self.bucket.shifted(by)
        rows = list(self.delayed_rows())
        for row in rows:
            row.due = max(row.due, now) if row.timed else row.due + by
        self.later = [(row.due, row.rank, row) for row in rows]
        heapq.heapify(self.later)


def _waits(entry: tuple[float, int, Row]) -> bool:
    return entry[2].where == DELAYED and entry[2].due == entry[0]
