"""The lane of one topic: rows that may start, in the order in which they will, at a cost that does not grow with them.

New rows come last, so most of them lie in a deque; what comes back in the middle (a retry, a higher priority) lies
in a heap beside it. A row that leaves from the middle is only marked; marks are swept before they outnumber the rows.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import islice

from millgate.brokers.core.row import LANE, TAKEN, Row

_SLACK = 64  # marks that are never worth a sweep


class Line:
    """Rows by rank. `live` is how many there are."""

    __slots__ = ("ages", "back", "fresh", "live")

    def __init__(self) -> None:
        self.fresh: deque[Row] = deque()
        self.back: list[tuple[int, Row]] = []
        #: Rows of `back` by the time at which they entered, which never steps back.
        self.ages: deque[tuple[float, Row]] = deque()
        self.live = 0

    def push(self, row: Row, ready: float) -> None:
        """Let a row stand in its place; it may start from `ready` on."""
        row.where, row.ready = LANE, ready
        self.live += 1
        if not self.fresh or self.fresh[-1].rank < row.rank:
            row.fresh = True
            self.fresh.append(row)
            return
        row.fresh = False
        heapq.heappush(self.back, (row.rank, row))
        self.ages.append((ready, row))
        if len(self.ages) > 2 * self.live + _SLACK:
            self.ages = deque(entry for entry in self.ages if _aged(entry))

    def pop(self) -> Row:
        """Take the first row; there must be one. The caller says where it goes."""
        first = self._first()
        self.live -= 1
        if first.fresh:
            self.fresh.popleft()
        else:
            heapq.heappop(self.back)
        first.where = TAKEN
        return first

    def left(self) -> None:
        """A row was taken out of the middle; its `where` says so already."""
        self.live -= 1
        if len(self.fresh) + len(self.back) + len(self.ages) > 3 * self.live + _SLACK:
            self._sweep()

    def oldest(self) -> float | None:
        """When the row that has been here longest entered; None: it is empty."""
        if not self.live:
            return None
        ages = self.ages
        while ages and not _aged(ages[0]):
            ages.popleft()
        self._clean()
        first = self.fresh[0].ready if self.fresh else None
        other = ages[0][0] if ages else None
        if first is None or other is None:
            return other if first is None else first
        return min(first, other)

    def shift(self, by: float) -> None:
        """Move the times of entering along with a clock that was set."""
        for row in self:
            row.ready += by
        self.ages = deque((ready + by, row) for ready, row in self.ages)

    def peek(self, limit: int) -> list[Row]:
        """The first `limit` rows in order, left where they are."""
        ahead = islice((row for row in self.fresh if _is_fresh(row)), limit)
        behind = {row.id: row for _, row in self.back if _is_back(row)}
        return heapq.nsmallest(limit, [*ahead, *behind.values()], key=lambda row: row.rank)

    def __iter__(self) -> Iterator[Row]:
        """Every row, in no promised order."""
        yield from (row for row in self.fresh if _is_fresh(row))
        yield from {row.id: row for _, row in self.back if _is_back(row)}.values()

    def _first(self) -> Row:
        self._clean()
        fresh, back = self.fresh, self.back
        if back and (not fresh or back[0][0] < fresh[0].rank):
            return back[0][1]
        return fresh[0]

    def _clean(self) -> None:
        fresh, back = self.fresh, self.back
        while fresh and not _is_fresh(fresh[0]):
            fresh.popleft()
        while back and not _is_back(back[0][1]):
            heapq.heappop(back)

    def _sweep(self) -> None:
        self.fresh = deque(row for row in self.fresh if _is_fresh(row))
        self.back = [
            (row.rank, row) for row in {r.id: r for _, r in self.back if _is_back(r)}.values()
        ]
        heapq.heapify(self.back)
        self.ages = deque(entry for entry in self.ages if _aged(entry))


def _is_fresh(row: Row) -> bool:
    return row.where == LANE and row.fresh


def _is_back(row: Row) -> bool:
    return row.where == LANE and not row.fresh


def _aged(entry: tuple[float, Row]) -> bool:
    return _is_back(entry[1]) and entry[1].ready == entry[0]
