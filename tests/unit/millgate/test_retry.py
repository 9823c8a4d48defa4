"""Waits between attempts stay within their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.retry import Backoff, BackoffType, Jitter


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(initial=2, max=20, jitter=Jitter.NONE)
    assert [backoff.delay(failures, 0.9) for failures in (1, 2, 3, 4, 5)] == [2, 4, 8, 16, 20]


def test_fixed_waits_stay() -> None:
    backoff = Backoff(BackoffType.FIXED, initial=7, jitter=Jitter.NONE)
    assert [backoff.delay(failures, 0) for failures in (1, 5, 50)] == [7, 7, 7]


@pytest.mark.parametrize(("draw", "wait"), [(0.0, 0.0), (0.25, 1.0), (0.5, 2.0)])
def test_full_jitter_spreads_over_the_whole_wait(draw: float, wait: float) -> None:
    assert Backoff(initial=2).delay(2, draw) == wait


@given(
    st.integers(1, 10**9),
    st.floats(0, 1, exclude_max=True),
    st.builds(
        Backoff,
        st.sampled_from(BackoffType),
        st.floats(0, 1e6),
        st.floats(1, 100),
        st.floats(0, 1e6),
    ),
)
def test_no_count_leaves_the_bounds(failures: int, draw: float, backoff: Backoff) -> None:
    assert 0 <= backoff.delay(failures, draw) <= backoff.max


@pytest.mark.parametrize("failures", [1, 2, 64, 1000])
def test_a_steep_backoff_is_capped_as_well(failures: int) -> None:
    assert Backoff(initial=2, factor=1e9, max=60, jitter=Jitter.NONE).delay(failures, 0.5) <= 60
