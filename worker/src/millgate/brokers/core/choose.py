"""Which topics a claim is served from, and how much of each: levels, weights, ageing, limits, reserve. Pure.

Levels are strict. Within a level each topic has a pass, its virtual time, which a start advances by 1/weight; whoever
is furthest behind is next. A topic that was away gets no credit for it: nobody is more than one step of the smallest
weight behind the front.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import groupby

#: The widest distance of two passes in a level: one start at weight 1.
_CREDIT = 1.0


class Entrant:
    """One topic in one choice.

    `quota` is what its own limits allow now, `unmet` how many slots of its reserve are free. `level` and `passed`
    may change during the choice; `granted` is the answer.
    """

    __slots__ = ("granted", "level", "name", "passed", "quota", "unmet", "weight")

    def __init__(
        self, name: str, level: int, weight: int, passed: float, quota: int, unmet: int = 0
    ) -> None:
        self.name = name
        self.level = level
        self.weight = weight
        self.passed = passed
        self.quota = quota
        self.unmet = unmet
        self.granted = 0


def raised(level: int, waited: float, boost_after: float, top: int) -> int:
    """The level of a topic whose oldest message has waited that long.

    Each interval raises it by one, up to `top`, the highest level that competes: there it shares by weight, so it
    cannot shut out the rest.
    """
    if boost_after <= 0 or level >= top or waited < boost_after:
        return level
    return min(top, level + int(waited / boost_after))


def choose(entrants: Sequence[Entrant], n: int, room: int | None = None) -> list[Entrant]:
    """Share out `n` starts; answer those who got some, in the order of service.

    `room` is what the queue's limit leaves after everybody's unmet reserve; None: no limit. It may be below zero.
    """
    left = n
    space = _Space(room)
    served: list[Entrant] = []
    ordered = sorted(entrants, key=lambda entrant: (-entrant.level, entrant.name))
    for _, level in groupby(ordered, key=lambda entrant: entrant.level):
        if left <= 0:
            break
        here = list(level)
        left = _alone(here[0], left, space) if len(here) == 1 else _share(here, left, space)
        served += [entrant for entrant in here if entrant.granted]
    return served


class _Space:
    """Free slots of the whole queue, and how a grant uses them up."""

    __slots__ = ("room",)

    def __init__(self, room: int | None) -> None:
        self.room = room

    def allows(self, entrant: Entrant, wanted: int) -> int:
        """How many of `wanted` fit."""
        if self.room is None:
            return wanted
        return min(wanted, self.room + entrant.unmet)

    def take(self, entrant: Entrant, count: int) -> None:
        """An entrant uses its own reserve first."""
        if self.room is None:
            return
        own = min(entrant.unmet, count)
        entrant.unmet -= own
        self.room -= count - own


def _alone(entrant: Entrant, left: int, space: _Space) -> int:
    return left - _grant(entrant, space.allows(entrant, min(left, entrant.quota)), space)


def _share(entrants: Iterable[Entrant], left: int, space: _Space) -> int:
    here = list(entrants)
    front = max(entrant.passed for entrant in here)
    for entrant in here:
        entrant.passed = max(entrant.passed, front - _CREDIT)
    heap = [(entrant.passed, entrant.name, entrant) for entrant in here]
    heapq.heapify(heap)
    while heap and left > 0:
        _, name, entrant = heap[0]
        free = space.allows(entrant, min(left, entrant.quota - entrant.granted))
        if free <= 0:
            heapq.heappop(heap)
            continue
        left -= _grant(entrant, min(free, _steps(heap)), space)
        heapq.heapreplace(heap, (entrant.passed, name, entrant))
    return left


def _steps(heap: list[tuple[float, str, Entrant]]) -> int:
    """Starts until the first of the heap has overtaken the next one."""
    if len(heap) == 1:
        return heap[0][2].quota
    behind = min(heap[1][0], heap[2][0]) if len(heap) > 2 else heap[1][0]
    return int((behind - heap[0][0]) * heap[0][2].weight) + 1


def _grant(entrant: Entrant, count: int, space: _Space) -> int:
    if count <= 0:
        return 0
    space.take(entrant, count)
    entrant.granted += count
    entrant.passed += count / entrant.weight
    return count
