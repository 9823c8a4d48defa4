"""The broker's time goes forward steadily, whatever becomes of the machine's clock."""

from __future__ import annotations

import pytest

from millgate.brokers.served.steady import Steady


class Clocks:
    """Two clocks that are turned apart."""

    def __init__(self) -> None:
        self.wall, self.mono = 1_000_000.0, 50.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds


def test_it_follows_a_clock_that_runs_well() -> None:
    clocks = Clocks()
    steady = Steady(clocks)
    for _ in range(10):
        clocks.sleep(7.0)
        assert steady.now() == pytest.approx(clocks.wall)


@pytest.mark.parametrize("step", [9.0, -9.0, 5.0, -5.0])
def test_a_clock_that_is_some_seconds_off_is_followed_slowly_and_never_backwards(
    step: float,
) -> None:
    clocks = Clocks()
    steady = Steady(clocks)
    clocks.wall += step
    last = steady.now()
    for _ in range(1000):
        clocks.sleep(1.0)
        now = steady.now()
        assert 0.9 - 1e-6 <= now - last <= 1.1 + 1e-6
        assert steady.set_to() is None
        last = now
    assert steady.now() == pytest.approx(clocks.wall, abs=0.01)


@pytest.mark.parametrize("step", [3600.0, -3600.0, 11.0, -11.0])
def test_a_clock_that_was_set_is_followed_when_whoever_has_the_time_is_ready(step: float) -> None:
    clocks = Clocks()
    steady = Steady(clocks)
    clocks.wall += step
    for _ in range(10):
        clocks.sleep(1.0)
        assert steady.now() == pytest.approx(clocks.wall - step)
        assert steady.set_to() == clocks.wall
    steady.jump(clocks.wall)
    assert steady.set_to() is None
    clocks.sleep(1.0)
    assert steady.now() == pytest.approx(clocks.wall)


def test_a_standstill_between_two_clocks_is_no_clock_that_was_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = Clocks()
    steady = Steady(clocks)

    def later() -> float:
        clocks.sleep(60.0)
        return clocks.wall

    monkeypatch.setattr(clocks, "now", later)
    assert steady.set_to() is None


def test_a_new_life_never_begins_before_the_old_one_ended() -> None:
    clocks = Clocks()
    assert Steady(clocks, earliest=clocks.wall + 100).now() == clocks.wall + 100
    assert Steady(clocks, earliest=clocks.wall - 100).now() == clocks.wall
