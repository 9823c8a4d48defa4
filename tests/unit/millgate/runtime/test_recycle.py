"""Ceilings as a table of cases."""

from __future__ import annotations

import pytest

from millgate.outcome import Failure
from millgate.runtime.recycle import (
    GROWTH,
    LATEST,
    SOONEST,
    Age,
    Because,
    Bounds,
    Ceilings,
    backoff,
    biggest,
    data_limit,
    far_over,
    next_look,
    next_pod_look,
    over_age,
    over_ceiling,
    over_files,
    spare_fits,
)

M = 2**20
BOTH = Ceilings(soft=400 * M, hard=600 * M, pod=1000 * M)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (400 * M, None),
        (400 * M + 1, Because.MAX_RSS),
        (600 * M, Because.MAX_RSS),
        (600 * M + 1, Because.HARD_MAX_RSS),
    ],
)
def test_a_tree_is_over_a_ceiling_by_one_byte(size: int, expected: Because | None) -> None:
    assert over_ceiling(size, BOTH) is expected


def test_without_ceilings_nothing_is_over() -> None:
    assert over_ceiling(10**12, Ceilings()) is None
    assert not far_over(10**12, Ceilings())
    assert next_look(10**12, Ceilings()) == LATEST


def test_a_tree_is_looked_at_before_it_can_have_grown_over_its_ceiling() -> None:
    for size in range(0, 700 * M, 7 * M):
        wait = next_look(size, BOTH)
        assert SOONEST <= wait <= LATEST
        if wait > SOONEST:
            assert size + wait * GROWTH <= BOTH.hard + 1  # type: ignore[operator]


def test_of_two_ceilings_the_hard_one_says_when_to_look_again() -> None:
    size = BOTH.hard - int(GROWTH * (SOONEST + LATEST) / 2)  # type: ignore[operator]
    hard = next_look(size, Ceilings(hard=BOTH.hard))
    assert next_look(size, BOTH) == hard == pytest.approx((SOONEST + LATEST) / 2)
    assert next_look(size, Ceilings(soft=BOTH.soft)) != hard


def test_a_replacement_is_waited_for_only_up_to_a_quarter_more() -> None:
    assert not far_over(500 * M, BOTH)
    assert far_over(500 * M + 1, BOTH)


def test_nine_tenths_of_the_pod_are_its_budget() -> None:
    assert BOTH.budget == 900 * M
    assert next_pod_look(899 * M, BOTH) == SOONEST
    assert next_pod_look(0, Ceilings()) == LATEST


@pytest.mark.parametrize(
    ("usage", "fits"), [(None, True), (0, True), (789 * M, True), (791 * M, False)]
)
def test_a_spare_starts_only_where_it_fits(usage: int | None, fits: bool) -> None:
    assert spare_fits(usage, 100 * M, BOTH) is fits
    assert spare_fits(usage, 100 * M, Ceilings())


def test_the_biggest_tree_is_the_one_to_stop() -> None:
    assert biggest({1: 5, 2: 9, 3: 9}) == 2
    assert biggest({}) is None


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (Age(9, 59.0), None),
        (Age(10, 0.0), Because.MAX_TASKS),
        (Age(0, 60.0), Because.MAX_LIFETIME),
        (Age(0, 0.0, 9), Because.DEFUNCT),
        (Age(0, 0.0, 8), None),
    ],
)
def test_a_child_has_done_enough(age: Age, expected: Because | None) -> None:
    assert over_age(age, Bounds(tasks=10, seconds=60.0)) is expected


def test_no_bound_means_for_ever() -> None:
    assert over_age(Age(10**9, 1e9), Bounds()) is None


def test_a_ceiling_under_the_baseline_says_what_to_raise_it_to() -> None:
    problem = Ceilings(soft=120 * M).check_baseline(150 * M)
    assert problem is not None
    assert "--max-rss" in problem
    assert "150Mi" in problem
    assert "120Mi" in problem
    assert "225Mi" in problem
    assert Ceilings(soft=151 * M).check_baseline(150 * M) is None
    hard = Ceilings(hard=100 * M).check_baseline(150 * M)
    assert hard is not None
    assert "--hard-max-rss" in hard


def test_a_pod_must_hold_its_idle_children() -> None:
    assert Ceilings(pod=200 * M).check_pod(20 * M, 40 * M, 7) is None
    problem = Ceilings(pod=200 * M).check_pod(20 * M, 40 * M, 8)
    assert problem is not None
    assert "8 idle children" in problem


def test_the_data_limit_leaves_what_was_reserved_before_the_first_task() -> None:
    assert data_limit(100 * M, data=80 * M, anonymous=30 * M, slots=2) == 166 * M
    assert data_limit(100 * M, data=10 * M, anonymous=30 * M, slots=1) == 108 * M


def test_children_that_fail_to_start_are_tried_ever_more_rarely() -> None:
    waits = [backoff(failures) for failures in range(12)]
    assert waits[0] == 0
    assert waits[1:] == sorted(waits[1:])
    assert waits[1] == 0.25
    assert waits[-1] == 30.0


@pytest.mark.parametrize(
    ("failure", "because"),
    [
        (Failure("OSError", "[Errno 24] Too many open files: 'x'"), Because.DESCRIPTORS),
        (
            Failure("app.Trouble", "no", "OSError: [Errno 24] Too many open files\n\nThe above"),
            Because.DESCRIPTORS,
        ),
        (Failure("OSError", "[Errno 2] No such file or directory"), None),
        (Failure("ValueError"), None),
    ],
)
def test_a_failure_for_want_of_descriptors_is_known_however_it_is_wrapped(
    failure: Failure, because: Because | None
) -> None:
    assert over_files(failure) is because


def test_a_child_that_memory_ended_before_it_was_ready_says_what_to_raise() -> None:
    problem = BOTH.check_start(Because.HARD_MAX_RSS)
    assert problem is not None
    assert "--hard-max-rss" in problem
    assert "600Mi" in problem
    problem = BOTH.check_start(Because.OOM_KILLED)
    assert problem is not None
    assert "--memory: the kernel" in problem
    assert BOTH.check_start(Because.EXITED) is None
    assert Ceilings(soft=400 * M).check_start(Because.HARD_MAX_RSS) is None
