"""Who starts a brokerd when several find none at once, and how long the others wait."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from millgate.brokers.rabbitmq import launch
from millgate.brokers.rabbitmq.dialer import Dialer, Started
from millgate.brokers.rabbitmq.url import Target, parse
from millgate.brokers.rabbitmq.wire import Absent
from millgate.clock import SystemClock
from millgate.errors import BrokerTimeout

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


def test_who_waits_for_another_thread_s_start_waits_no_longer_than_it_may(
    program: Program, target: Target
) -> None:
    dialer = Dialer(target, "q", CLOCK, start=10.0)
    problems: list[Exception] = []

    def start(seconds: float) -> None:
        try:
            dialer.start(Absent("nobody"), CLOCK.monotonic() + seconds)
        except (Started, BrokerTimeout) as error:
            problems.append(error)

    thread = threading.Thread(target=start, args=(10.0,))
    thread.start()
    assert program.starting.wait(10)
    start(0.1)
    assert [type(problem) for problem in problems] == [BrokerTimeout]
    program.up.set()
    thread.join()
    assert [type(problem) for problem in problems] == [BrokerTimeout, Started]
