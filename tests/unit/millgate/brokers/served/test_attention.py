"""A process that serves notices that it heard nobody for a while, whatever kept it."""

from __future__ import annotations

import pytest

from millgate.brokers.served.attention import Attention


def test_a_wait_that_lasts_as_long_as_it_was_meant_to_is_none() -> None:
    attention, now = Attention(100.0), 100.0
    for meant in (5.0, 30.0, 0.0, 5.0):
        now += meant + 0.1
        assert not attention.returned(now, meant)


@pytest.mark.parametrize("away", [1.5, 8.0, 3600.0])
def test_what_kept_it_from_waiting_or_kept_it_in_its_wait_is_noticed_once(away: float) -> None:
    attention = Attention(100.0)
    assert not attention.returned(100.2, 0.1)
    assert attention.returned(100.2 + 0.5 + away, 0.5)
    assert not attention.returned(100.2 + 0.5 + away + 0.2, 0.1)


def test_work_that_always_takes_long_is_load() -> None:
    attention, now, noticed = Attention(0.0), 0.0, []
    for took in (0.1, 20.0, 0.1, 1.5, 1.5, 1.6):
        now += took
        noticed.append(attention.returned(now, 0.0))
    assert noticed == [False, True, False, True, False, False]
