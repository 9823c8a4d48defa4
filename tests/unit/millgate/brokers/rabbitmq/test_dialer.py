"""How a client comes to a brokerd when the node that it is connected to knows of none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from millgate.brokers.rabbitmq.dialer import Dialer
from millgate.brokers.rabbitmq.url import parse
from millgate.brokers.rabbitmq.wire import Absent
from millgate.brokers.served.caller import Caller
from support.clock import FakeClock

CALLER = Caller("client", "q")


class Nodes:
    """Connections to nodes, of which those that are named first know of no brokerd."""

    def __init__(self, dialer: Dialer, monkeypatch: pytest.MonkeyPatch, ignorant: int) -> None:
        self.ignorant = ignorant
        self.made = self.closed = 0
        monkeypatch.setattr(dialer, "_connected", self.connect)

    def connect(self, *_: object) -> SimpleNamespace:
        self.made += 1
        knows = self.made > self.ignorant

        def receive(_end: float, _silence: float) -> bytes:
            if not knows:
                raise Absent("nobody serves it")
            return b"answer"

        def close() -> None:
            self.closed += 1

        line = SimpleNamespace(
            send=lambda *_: None, receive=receive, readable=None, close=lambda: None
        )
        return SimpleNamespace(ended=None, trusted=lambda _: True, line=lambda _: line, close=close)


def calls_until_answered(dialer: Dialer, clock: FakeClock, most: int) -> float | None:
    """Seconds until a call that is repeated once a second is answered; None: it never is."""
    began = clock.monotonic()
    for _ in range(most):
        try:
            dialer(CALLER, clock.monotonic() + 10).receive(clock.monotonic() + 10)
        except Absent:
            clock.advance(1.0)
        else:
            return clock.monotonic() - began
    return None


@pytest.mark.parametrize(("ignorant", "seconds"), [(0, 0.0), (1, 6.0), (3, 18.0)])
def test_another_node_is_asked_when_one_knows_of_no_brokerd_for_long(
    monkeypatch: pytest.MonkeyPatch, ignorant: int, seconds: float
) -> None:
    clock = FakeClock()
    dialer = Dialer(parse("amqp://n1,n2,n3/?brokerd=never", {}), "q", clock)
    nodes = Nodes(dialer, monkeypatch, ignorant)
    taken = calls_until_answered(dialer, clock, 60)
    assert taken is not None
    assert taken <= seconds
    assert nodes.closed == ignorant


def test_a_brokerd_that_is_away_for_a_moment_costs_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    dialer = Dialer(parse("amqp://n1,n2,n3/?brokerd=never", {}), "q", clock)
    nodes = Nodes(dialer, monkeypatch, 1)
    for _ in range(5):
        assert calls_until_answered(dialer, clock, 4) is None
        dialer.missed = None  # as an answer leaves it
    assert (nodes.made, nodes.closed) == (1, 0)


def test_where_there_is_one_node_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    dialer = Dialer(parse("amqp://n1/?brokerd=never", {}), "q", clock)
    nodes = Nodes(dialer, monkeypatch, 1)
    assert calls_until_answered(dialer, clock, 30) is None
    assert (nodes.made, nodes.closed) == (1, 0)
