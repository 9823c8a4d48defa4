"""Who starts a brokerd when several find none at once, and how long the others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from millgate.brokers.rabbitmq import launch
from millgate.brokers.rabbitmq.dialer import Dialer
from millgate.brokers.rabbitmq.url import Target, parse
from millgate.brokers.rabbitmq.wire import Absent
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.session import Session
from millgate.clock import Clock, SystemClock
from millgate.errors import BrokerRefused, BrokerTimeout
from support.clock import FakeClock

CLOCK = SystemClock()


class Program:
    """Takes the place of a started program: it comes up when the test lets it."""

    def __init__(self) -> None:
        self.starts = 0
        self.starting, self.up = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> Program:
        return self

    def start(self, *_: object) -> None:
        """Come up."""
        self.starts += 1
        self.starting.set()
        assert self.up.wait(10)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """What is started."""
    program = Program()
    monkeypatch.setattr(launch, "Detached", program)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return program


@pytest.fixture
def target() -> Target:
    """Some server."""
    return parse("amqp://host/", {})


def test_of_several_processes_one_starts_it_and_the_others_wait_for_that(
    program: Program, target: Target
) -> None:
    def start() -> None:
        launch.start(target, "q", CLOCK, CLOCK.monotonic() + 10)

    threads = [threading.Thread(target=start) for _ in range(4)]  # each opens the lock anew
    threads[0].start()
    assert program.starting.wait(10)
    for thread in threads[1:]:
        thread.start()
    with pytest.raises(BrokerTimeout, match="too long to start"):
        launch.start(target, "q", CLOCK, CLOCK.monotonic() + 0.1)
    program.up.set()
    for thread in threads:
        thread.join()
    assert program.starts == 1
    start()
    assert program.starts == 2, "the lock is free again"


def dialer_without_brokerd(
    target: Target, clock: Clock, monkeypatch: pytest.MonkeyPatch, after: Callable[[], None]
) -> Dialer:
    """One whose calls find no brokerd, which they are told after that."""

    def receive(_end: float, _silence: float) -> bytes:
        after()
        raise Absent("nobody")

    line = SimpleNamespace(send=lambda *_: None, receive=receive, readable=None, close=lambda: None)
    dialer = Dialer(target, "q", clock)
    monkeypatch.setattr(dialer, "_present", lambda *_: SimpleNamespace(line=lambda _: line))
    return dialer


def test_who_waits_for_another_thread_s_start_waits_no_longer_than_it_may(
    program: Program, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialer = dialer_without_brokerd(target, CLOCK, monkeypatch, lambda: None)
    caller = Caller("client", "q")
    with pytest.raises(Absent):
        dialer(caller, CLOCK.monotonic() + 10).receive(CLOCK.monotonic() + 10)
    problems: list[Exception | None] = []

    def dial(seconds: float) -> None:
        try:
            dialer(caller, CLOCK.monotonic() + seconds)
            problems.append(None)
        except BrokerTimeout as error:
            problems.append(error)

    threads = [threading.Thread(target=dial, args=(10.0,)) for _ in range(3)]
    threads[0].start()
    assert program.starting.wait(10)
    dial(0.1)
    assert [type(problem) for problem in problems] == [BrokerTimeout]
    for thread in threads[1:]:
        thread.start()
    program.up.set()
    for thread in threads:
        thread.join()
    assert problems[1:] == [None] * 3
    assert program.starts == 1


def test_a_call_that_finds_no_brokerd_late_gives_its_start_no_longer_than_its_own_deadline(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, ends = FakeClock(), list[float]()
    monkeypatch.setattr(launch, "start", lambda *of: ends.append(of[-1]))
    dialer = dialer_without_brokerd(target, clock, monkeypatch, lambda: clock.advance(0.9))
    end = clock.monotonic() + 2.0
    with pytest.raises(Absent):
        Session(dialer, "q", 2.0, clock).call("stats")
    assert set(ends) == {end}


def test_one_that_was_started_elsewhere_meanwhile_is_looked_for_before_another_is_started(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[object] = []

    def fail(*_: object) -> None:
        starts.append(None)
        raise BrokerRefused("no rights")

    monkeypatch.setattr(launch, "start", fail)
    dialer = dialer_without_brokerd(target, CLOCK, monkeypatch, lambda: None)
    caller, end = Caller("client", "q"), CLOCK.monotonic() + 10
    with pytest.raises(Absent):
        dialer(caller, end).receive(end)
    with pytest.raises(BrokerRefused, match="no rights"):
        dialer(caller, end)
    dialer(caller, end)
    assert len(starts) == 1
