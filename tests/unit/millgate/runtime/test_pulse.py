"""A freeze and a clock's jump are noticed before anything is settled."""

from __future__ import annotations

import pytest

from millgate.runtime.pulse import Pulse
from support.clock import FakeClock


def test_regular_beats_are_not_suspect() -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    for _ in range(100):
        clock.advance(0.5)
        pulse.beat(lease=3.0)
    assert not pulse.look(3.0)


def test_a_gap_of_a_third_of_the_lease_is_suspect_until_the_leases_are_validated() -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    clock.advance(21.0)
    assert pulse.look(60.0)
    clock.advance(0.1)
    pulse.beat(60.0)
    assert pulse.look(60.0)
    pulse.validated()
    assert not pulse.look(60.0)


@pytest.mark.parametrize(
    ("lease", "gap"), [(3.0, 1.0), (60.0, 20.0), (None, 20.0), (0.3, 0.5)], ids=str
)
def test_the_shortest_lease_says_how_long_a_gap_may_be(lease: float | None, gap: float) -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    clock.advance(gap - 0.01)
    assert not pulse.look(lease)
    clock.advance(0.02)
    assert pulse.look(lease)


def test_a_wall_clock_that_is_set_is_suspect() -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    clock.step(-3600)
    assert pulse.look(60.0)
    pulse.validated()
    clock.step(4)
    assert not pulse.look(60.0)


def test_the_age_is_what_liveness_asks_for() -> None:
    clock = FakeClock()
    pulse = Pulse(clock)
    clock.advance(7.0)
    assert pulse.age() == 7.0
    pulse.beat(None)
    assert pulse.age() == 0.0
