"""Liveness: it turns red when a loop does not come round, and for nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from millgate.runtime.status import Status
from support.clock import FakeClock

LONG = 600.0  # as long as a task may take, or a broker be away


def a_worker(clock: FakeClock) -> Any:
    """A supervisor whose loops came round just now, and whose broker has not answered for long."""
    began = clock.monotonic()
    beaten = SimpleNamespace(at=began)
    return SimpleNamespace(
        clock=clock,
        beaten=beaten,
        pulse=SimpleNamespace(age=lambda: clock.monotonic() - beaten.at),
        loop=SimpleNamespace(turned=began),
        connection=SimpleNamespace(up=False, down_for=LONG),
    )


def later(worker: Any, *, io: bool = False, broker: bool = False) -> str | None:
    """What liveness says after a long time in which these loops went round."""
    status = Status(worker)
    status.registered = True
    for _ in range(int(LONG)):
        worker.clock.advance(1.0)
        now = worker.clock.monotonic()
        worker.beaten.at = now if io else worker.beaten.at
        worker.loop.turned = now if broker else worker.loop.turned
    return status.alive()


def test_a_long_task_and_a_broker_that_is_away_are_no_reason_to_be_killed() -> None:
    assert later(a_worker(FakeClock()), io=True, broker=True) is None


def test_a_supervisor_that_is_stuck_is_told_whichever_loop_it_is() -> None:
    assert "io thread" in str(later(a_worker(FakeClock()), broker=True))
    assert "broker thread" in str(later(a_worker(FakeClock()), io=True))


def test_a_worker_that_has_not_come_to_its_broker_yet_is_alive() -> None:
    worker = a_worker(FakeClock())
    worker.clock.advance(LONG)
    worker.beaten.at = worker.clock.monotonic()
    assert Status(worker).alive() is None
