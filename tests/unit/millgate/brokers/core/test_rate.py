"""The token bucket's arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.core.rate import Bucket, drawn, filled, full, next_in, whole
from millgate.limits import Rate

TEN = Rate(10, 1.0, burst=5)


def test_a_new_bucket_is_full_to_its_burst() -> None:
    assert whole(full(TEN, 0.0)) == 5
    assert whole(full(Rate(3, 60.0), 0.0)) == 3


def test_time_fills_it_at_its_rate_up_to_its_burst() -> None:
    empty = Bucket(0.0, 100.0)
    assert whole(filled(empty, TEN, 100.09)) == 0
    assert whole(filled(empty, TEN, 100.1)) == 1
    assert whole(filled(empty, TEN, 100.35)) == 3
    assert whole(filled(empty, TEN, 1000.0)) == 5


def test_a_clock_that_steps_back_neither_adds_nor_takes() -> None:
    bucket = Bucket(2.0, 100.0)
    assert filled(bucket, TEN, 50.0) == bucket


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_changes_nothing_about_when_tokens_come(by: float) -> None:
    bucket = Bucket(0.0, 10_000.0).shifted(by)
    assert filled(bucket, TEN, 10_000.3 + by).tokens == pytest.approx(3.0)


def test_the_next_token_is_announced() -> None:
    assert next_in(Bucket(1.0, 0.0), TEN) == 0.0
    assert abs(next_in(Bucket(0.25, 0.0), TEN) - 0.075) < 1e-9


def test_tenths_do_not_get_lost_in_floats() -> None:
    bucket = Bucket(0.0, 0.0)
    for step in range(1, 11):
        bucket = filled(bucket, Rate(1, 1.0), step / 10)
    assert whole(bucket) == 1


@given(
    st.integers(1, 50),
    st.floats(0.1, 100),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 60)), max_size=50),
)
def test_no_stretch_has_more_starts_than_burst_and_rate_allow(
    count: int, per: float, burst: int, steps: list[tuple[float, int]]
) -> None:
    rate, now = Rate(count, per, burst), 0.0
    bucket = full(rate, now)
    starts: list[tuple[float, int]] = []
    for gap, wanted in steps:
        now += gap
        bucket = filled(bucket, rate, now)
        taken = min(wanted, whole(bucket))
        bucket = drawn(bucket, taken)
        starts.append((now, taken))
    for first in range(len(starts)):
        total = 0
        for when, taken in starts[first:]:
            total += taken
            assert total <= burst + (when - starts[first][0]) * count / per + 1e-3
