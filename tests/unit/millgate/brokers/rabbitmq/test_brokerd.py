"""A brokerd without a server: how long it goes on."""

from __future__ import annotations

import pytest
from pika import exceptions

from millgate.brokers.rabbitmq.brokerd import Server
from millgate.brokers.rabbitmq.role import Brokerd, Standing
from millgate.brokers.rabbitmq.url import parse
from support.clock import FakeClock, NotingClock
from support.programs import free_port


def test_one_that_nobody_called_for_long_ends_although_its_server_is_gone() -> None:
    clock = FakeClock()
    told: list[Standing] = []
    target = parse(f"amqp://guest:guest@127.0.0.1:{free_port()}/", {})
    began = clock.monotonic()
    Server(Brokerd(target, "q", idle=5.0), clock, told.append).run()
    assert set(told) == {Standing.AWAY}
    assert 5.0 <= clock.monotonic() - began < 7.0


def test_a_server_that_is_away_is_tried_ever_less_often_and_not_by_all_at_once() -> None:
    target = parse(f"amqp://guest:guest@127.0.0.1:{free_port()}/", {})
    paused: list[list[float]] = []
    for _ in range(2):
        clock = NotingClock()
        Server(Brokerd(target, "q", idle=30.0), clock, lambda _: None).run()
        paused.append(clock.slept)
    assert all(
        0.5 <= slept[0] <= 1.0 <= min(slept[1:]) <= max(slept[1:]) <= 2.0 for slept in paused
    )
    assert paused[0] != paused[1]


class Idle:
    """Takes the place of a desk."""

    def turn(self, *_: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_is_followed_once_that_is_stored(
    monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    clock, stored = FakeClock(), list[object]()
    target = parse("amqp://guest:guest@127.0.0.1/", {})
    server = Server(Brokerd(target, "q"), clock, lambda _: None)
    monkeypatch.setattr(server, "_desk", Idle())
    server._turn()
    clock.step(by)

    def lost(_records: object) -> None:
        raise exceptions.ConnectionClosed(320, "CONNECTION_FORCED")

    monkeypatch.setattr(server._journal, "append", lost)
    with pytest.raises(exceptions.ConnectionClosed):
        server._turn()
    assert server._now == pytest.approx(clock.now() - by)
    monkeypatch.setattr(server._journal, "append", stored.append)
    for _ in range(3):
        server._turn()
        assert server._now == pytest.approx(clock.now())
    assert len(stored) == 1
