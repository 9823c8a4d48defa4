"""A brokerd without a server: how long it goes on."""

from __future__ import annotations

import pytest

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


class Slow:
    """Takes the place of a desk whose turns take so many seconds."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.seconds = clock, 0.0

    def turn(self, *_: object) -> None:
        """Let time pass."""
        self.clock.advance(self.seconds)


def test_a_turn_that_was_held_up_costs_no_lease_but_turns_that_are_always_slow_end_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, resumed = FakeClock(), list[float]()
    target = parse("amqp://guest:guest@127.0.0.1/", {})
    server = Server(Brokerd(target, "q"), clock, lambda _: None)
    desk = Slow(clock)
    monkeypatch.setattr(server, "_desk", desk)
    monkeypatch.setattr(server, "_resume", lambda: resumed.append(clock.monotonic()))
    for desk.seconds, resumes in ((0.1, 0), (20.0, 1), (0.1, 1), (1.5, 2), (1.5, 2), (1.6, 2)):
        server._turn()
        assert len(resumed) == resumes
