"""A brokerd without a server: how long it goes on."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from millgate.brokers.rabbitmq import brokerd
from millgate.brokers.rabbitmq.brokerd import Server
from millgate.brokers.rabbitmq.role import Brokerd, Standing
from millgate.brokers.rabbitmq.url import parse
from support.clock import FakeClock, NotingClock
from support.programs import free_port
from support.wait import eventually


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


def test_a_snapshot_that_takes_far_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokerd, "_SNAPSHOT", 1)
    monkeypatch.setattr(brokerd, "connect", lambda *_: signal.pause())  # a server that says nothing
    written: list[tuple[str, int | None]] = []
    journal = SimpleNamespace(
        due=True,
        head=SimpleNamespace(term=1),
        rotate=lambda: "snapshot",
        written=lambda *of: written.append(of),
    )
    server = Server(Brokerd(parse("amqp://127.0.0.1/", {}), "q"), FakeClock(), lambda _: None)
    monkeypatch.setattr(server, "_journal", journal)
    server._consider_snapshot()
    journal.due = False

    def looked() -> bool:
        server._consider_snapshot()
        return bool(written)

    eventually(looked)
    assert written == [("snapshot", None)]


def test_a_snapshot_s_connection_need_not_live_while_the_state_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    def keep(name: str) -> Any:
        done.append(name)
        return MagicMock()

    monkeypatch.setattr(brokerd, "fork", lambda write: write())
    monkeypatch.setattr(signal, "alarm", lambda _: None)
    monkeypatch.setattr(brokerd, "connect", lambda *_: keep("connect"))
    monkeypatch.setattr(brokerd, "Streams", lambda _: None)
    monkeypatch.setattr(brokerd, "write_snapshot", lambda *_: 1)
    server = Server(Brokerd(parse("amqp://127.0.0.1/", {}), "q"), FakeClock(), lambda _: None)
    monkeypatch.setattr(server, "_journal", MagicMock(due=True))
    monkeypatch.setattr(server, "_engine", SimpleNamespace(dump=lambda: keep("dump")))
    server._consider_snapshot()
    assert done == ["dump", "connect"]
