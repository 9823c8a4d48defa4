"""Waiting on a connection without a server: how long it lasts, and what ends it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from pika import exceptions

from millgate.brokers.rabbitmq import pump
from millgate.brokers.rabbitmq.pump import Pump
from support.clock import FakeClock


class Loop:
    """A driver's loop in which time passes only while it waits."""

    def __init__(self, clock: FakeClock, timers: float | None) -> None:
        self.clock, self.polls = clock, list[float]()
        self._poller = SimpleNamespace(_get_wait_seconds=lambda: timers)

    def poll(self) -> None:
        """Wait as long as it may, but not for ever."""
        self.polls.append(self._poller._get_wait_seconds())
        self.clock.advance(min(self.polls[-1], 5.0))

    def process_timeouts(self) -> None:
        """Nothing is due."""


class Driver:
    """A blocking connection as far as a pump touches it."""

    def __init__(self, clock: FakeClock, timers: float | None = None) -> None:
        self.loop = Loop(clock, timers)
        self._impl = SimpleNamespace(ioloop=self.loop, is_open=True)
        self._ready_events: list[object] = []
        self._channels_pending_dispatch: set[int] = set()
        self._closed_result = SimpleNamespace(ready=False, value=None)
        self.dispatched = 0

    def process_data_events(self, seconds: float) -> None:
        """Count."""
        assert not seconds
        self.dispatched += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(pump, "time_now", clock.monotonic)
    return clock


def test_a_wait_ends_when_its_time_is_over_or_all_is_done(clock: FakeClock) -> None:
    driver, began = Driver(clock), clock.monotonic()
    waits = Pump(driver)
    assert not waits.until(lambda: False, 12.0)
    assert clock.monotonic() == began + 12.0
    assert driver.loop.polls == [12.0, 7.0, 2.0]
    assert waits.until(lambda: len(driver.loop.polls) == 4, 12.0)
    assert waits.until(lambda: True, 0.0)
    assert len(driver.loop.polls) == 4


def test_the_driver_s_timers_are_kept_and_between_waits_nothing_bounds_them(
    clock: FakeClock,
) -> None:
    driver = Driver(clock, timers=3.0)
    waits = Pump(driver)
    assert not waits.until(lambda: False, 4.0)
    assert driver.loop.polls == [3.0, 1.0]
    assert driver.loop._poller._get_wait_seconds() == 3.0
    assert Pump(Driver(clock))._left() == math.inf


def test_the_end_of_a_connection_ends_a_wait_and_is_for_the_driver_to_tell(
    clock: FakeClock,
) -> None:
    driver = Driver(clock)
    waits = Pump(driver)
    waits.dispatch()
    assert not driver.dispatched
    driver._impl.is_open = False
    assert not waits.until(lambda: False, 60.0)
    assert driver.loop.polls == []
    waits.dispatch()
    assert driver.dispatched == 1
    closed = exceptions.ConnectionClosedByBroker(320, "a test")
    driver._closed_result = SimpleNamespace(ready=True, value=SimpleNamespace(error=closed))
    with pytest.raises(exceptions.ConnectionClosedByBroker, match="a test"):
        waits.dispatch()


def test_what_the_driver_has_to_tell_is_not_lost(clock: FakeClock) -> None:
    driver = Driver(clock)
    waits = Pump(driver)
    driver._channels_pending_dispatch.add(1)
    assert waits.asked
    driver._channels_pending_dispatch.clear()
    driver._ready_events.append(object())
    assert waits.asked
