"""Parked calls are found by what they wait for, and leave nothing behind."""

from __future__ import annotations

from millgate.brokers.served.waiting import Parked, Waiting
from millgate.queues import Subscription

ALL, SOME = Subscription(), Subscription(("a",))


def parked(
    waiting: Waiting, line: str, wanted: Subscription | list[str], queue: str = "q"
) -> Parked:
    made = Parked(line, 1, queue, 0.0, wanted)
    waiting.park(made)
    return made


def test_workers_are_found_by_what_they_take_in_the_order_of_their_coming() -> None:
    waiting = Waiting()
    first, other, second = (
        parked(waiting, line, take) for line, take in (("1", ALL), ("2", SOME), ("3", ALL))
    )
    parked(waiting, "4", ALL, "another queue")
    parked(waiting, "5", ["id"])
    assert waiting.for_work("q") == {ALL: [first, second], SOME: [other]}
    assert waiting.for_work("nobody's") == {}


def test_who_waits_for_several_ids_is_found_by_each_and_told_once() -> None:
    waiting = Waiting()
    both, one = parked(waiting, "1", ["a", "b"]), parked(waiting, "2", ["b"])
    parked(waiting, "3", ["a"], "another queue")
    assert waiting.for_ends("q", ["a", "b", "c"]) == [both, one]
    assert waiting.for_ends("q", ["a"]) == [both]


def test_who_leaves_or_waits_for_something_else_is_not_found_any_more() -> None:
    waiting = Waiting()
    worker, watcher = parked(waiting, "1", ALL), parked(waiting, "2", ["a"])
    again = parked(waiting, "2", ["b"])
    waiting.leave("1")
    waiting.leave("nobody")
    assert (worker.gone, watcher.gone, again.gone) == (True, True, False)
    assert waiting.for_work("q") == {}
    assert waiting.for_ends("q", ["a", "b"]) == [again]
    assert len(waiting) == 1
