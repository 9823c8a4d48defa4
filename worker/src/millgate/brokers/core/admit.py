"""Per-key limits and strict orders, decided when a row enters and not when it is claimed: what may not start is parked.

A gate gives each key its slots. Rows in the lane and rows that run occupy them; the others wait parked, best rank
first, and are never looked at by a claim. So everything in a lane is startable, and a claim's cost does not depend on
how much is blocked.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator

from millgate.brokers.core.row import PARKED, Row

_SLACK = 64


class Gate:
    """The slots of one key (or of a whole FIFO topic) and who waits for them.

    A `sticky` gate keeps the slot of a row that has started until the row has ended for good, retries included; not
    when more have started than there are slots, since the gate came when they ran.
    The rows in the lane are always the best-ranked of those that wait.
    """

    __slots__ = ("_parked", "busy", "lane", "limit", "name", "parked", "sticky")

    def __init__(self, name: str, limit: int, sticky: bool) -> None:
        self.name = name
        self.limit = limit
        self.sticky = sticky
        self.busy = 0
        self.lane: list[tuple[int, Row]] = []
        self.parked = 0
        self._parked: list[tuple[int, Row]] = []

    @property
    def empty(self) -> bool:
        """Whether nothing needs this gate any more."""
        return not (self.busy or self.lane or self.parked)

    def admit(self, row: Row) -> tuple[bool, Row | None]:
        """Decide where a row goes: whether into the lane, and who has to leave it for that."""
        if row.holds:
            return True, None
        if self.busy + len(self.lane) < self.limit and not self._better(row):
            insort(self.lane, (row.rank, row))
            return True, None
        if self.lane and self.lane[-1][0] > row.rank:
            worst = self.lane.pop()[1]
            insort(self.lane, (row.rank, row))
            self.park(worst)
            return True, worst
        self.park(row)
        return False, None

    def park(self, row: Row) -> None:
        """Let a row wait for a slot."""
        row.where = PARKED
        self.parked += 1
        heapq.heappush(self._parked, (row.rank, row))

    def started(self, row: Row) -> None:
        """A row went from the lane to a worker."""
        if not row.holds:
            self.lane.remove((row.rank, row))
            self.busy += 1
            row.holds = True

    def returned(self, row: Row) -> None:
        """A row came back from a worker, and will run again."""
        if row.holds and (not self.sticky or self.busy > self.limit):
            self.busy -= 1
            row.holds = False

    def ended(self, row: Row, where: int) -> None:
        """A row that was at `where` is gone for good."""
        if row.holds:
            self.busy -= 1
            row.holds = False
        elif where == PARKED:
            self.parked -= 1
            if len(self._parked) > 2 * self.parked + _SLACK:
                self._parked = [(r.rank, r) for r in self]
                heapq.heapify(self._parked)
        elif (row.rank, row) in self.lane:
            self.lane.remove((row.rank, row))

    def next(self) -> Row | None:
        """The parked row that a free slot lets into the lane now; None: no slot or no row."""
        if self.busy + len(self.lane) >= self.limit:
            return None
        row = self._first()
        if row is not None:
            heapq.heappop(self._parked)
            self.parked -= 1
            self.stand(row)
        return row

    def stand(self, row: Row) -> None:
        """A row that holds no slot yet stands in the lane."""
        insort(self.lane, (row.rank, row))

    def _first(self) -> Row | None:
        """The best-ranked of the parked."""
        if not self.parked:
            return None
        while self._parked[0][1].where != PARKED:
            heapq.heappop(self._parked)
        return self._parked[0][1]

    def _better(self, row: Row) -> bool:
        """Whether somebody who is parked comes before a row: it came back from a worker, and its slot is free."""
        first = self._first()
        return first is not None and first.rank < row.rank

    def __iter__(self) -> Iterator[Row]:
        """The parked rows, in no promised order."""
        yield from {row.id: row for _, row in self._parked if row.where == PARKED}.values()
