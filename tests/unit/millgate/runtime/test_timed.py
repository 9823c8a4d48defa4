"""Calls to the broker are timed by verb, and are otherwise what they were."""

from __future__ import annotations

import pytest

from millgate.brokers.memory import MemoryBroker
from millgate.errors import BrokerUnavailable
from millgate.runtime.metrics import Metrics
from millgate.runtime.timed import VERBS, timed
from support.builders import a_message, a_worker, an_info
from support.clock import FakeClock


class Slow(MemoryBroker):
    """A round trip takes half a second; a registration fails after it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.turned = clock

    def publish(self, *arguments: object) -> object:  # type: ignore[override]
        self.turned.advance(0.5)
        return super().publish(*arguments)  # type: ignore[arg-type]

    def register(self, *_: object) -> None:  # type: ignore[override]
        self.turned.advance(0.5)
        raise BrokerUnavailable


def lines(metrics: Metrics) -> list[str]:
    text = metrics.text()
    return [line for line in text.splitlines() if line.startswith("millgate_broker_seconds")]


def test_a_call_and_its_failure_are_timed() -> None:
    clock, metrics = FakeClock(), Metrics()
    broker = timed(Slow(clock), metrics, clock)
    message = a_message()
    assert [receipt.id for receipt in broker.publish([message])] == [message.id]
    broker.publish([message])
    with pytest.raises(BrokerUnavailable):
        broker.register(a_worker(), an_info())
    seen = lines(metrics)
    assert 'millgate_broker_seconds_bucket{verb="publish",le="0.5"} 2' in seen
    assert 'millgate_broker_seconds_bucket{verb="publish",le="0.1"} 0' in seen
    assert 'millgate_broker_seconds_count{verb="register"} 1' in seen
    assert 'millgate_broker_seconds_sum{verb="register"} 0.5' in seen


def test_what_is_no_round_trip_is_passed_on_untimed() -> None:
    clock, metrics = FakeClock(), Metrics()
    real = MemoryBroker(clock=clock)
    broker = timed(real, metrics, clock)
    assert broker.server() == real.server()
    broker.interrupt()
    assert lines(metrics) == []
    assert all(callable(getattr(real, verb)) for verb in VERBS)
