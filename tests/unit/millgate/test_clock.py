"""Moments as they are written."""

from __future__ import annotations

import pytest

from millgate.clock import written


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (1_800_000_000.0, "2027-01-15T08:00:00Z"),
        (1_800_000_000.25, "2027-01-15T08:00:00.250Z"),
        (-1.0, "1969-12-31T23:59:59Z"),
        (1e18, "1e+18"),  # beyond the calendar
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_moment_is_iso_8601_in_utc(seconds: float, text: str) -> None:
    assert written(seconds) == text
