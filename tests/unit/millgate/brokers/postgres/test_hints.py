"""When a client looks at everything, and when it starts where it stopped."""

from __future__ import annotations

from millgate.brokers.postgres.hints import Hints, Turns


def _slow(hints: Hints, now: float, cost: float = 0.1, times: int = 3) -> None:
    for _ in range(times):
        hints.looked(now, cost)


def test_while_looking_is_quick_all_is_looked_at() -> None:
    hints = Hints()
    hints.claimed([(20, 5)])
    _slow(hints, 0.0, cost=0.001)
    assert hints.columns(0.0) == (None, None)


def test_once_may_be_chance() -> None:
    hints = Hints()
    hints.claimed([(20, 5)])
    _slow(hints, 0.0, times=2)
    hints.looked(0.0, 0.0001)
    _slow(hints, 0.0, times=2)
    assert hints.columns(0.0) == (None, None)


def test_slow_looks_are_made_rarely() -> None:
    hints = Hints()
    hints.claimed([(20, 5), (21, 9)])
    _slow(hints, 100.0, cost=0.2)
    lanes, starts = hints.columns(103.9)
    assert (lanes.values, starts.values) == ([20, 21], [5, 9])
    assert hints.columns(104.1) == (None, None)  # 20 times the cost


def test_of_twenty_claims_a_second_fewer_than_one_in_twenty_looks_at_everything() -> None:
    hints = Hints()
    hints.claimed([(20, 5)])
    _slow(hints, 100.0, cost=0.005)
    assert hints.columns(101.9) != (None, None)
    assert hints.columns(102.1) == (None, None)


def test_what_was_given_back_is_looked_for_at_once() -> None:
    hints = Hints()
    hints.claimed([(20, 5)])
    _slow(hints, 0.0)
    hints.forget()
    assert hints.columns(0.1) == (None, None)


def test_only_the_latest_lanes_are_remembered() -> None:
    hints = Hints()
    hints.claimed([(lane, lane) for lane in range(20)])
    _slow(hints, 0.0)
    assert hints.columns(0.0)[0].values == list(range(12, 20))


def test_turns_are_those_that_the_server_reckoned() -> None:
    turns = Turns()
    assert turns.columns() == (None, None)
    turns.note([1, 2], [0.5, 1.5])
    turns.note(None, None)
    topics, passes = turns.columns()
    assert (topics.values, passes.values) == ([1, 2], [0.5, 1.5])
