"""Sizing with processes: what the autoscaler is shown, and what becomes of its decisions."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from millgate.brokers.base import Fenced
from millgate.errors import BrokerUnavailable
from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.stats import Stats, TopicStats
from millgate_operator.dev.pool import Pool, Worker, pods
from millgate_operator.dev.programs import Program
from millgate_operator.scaling import ScalingPolicy


class Started:
    """Remembers what was started and signalled."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.signals: list[tuple[str, signal.Signals]] = []

    def start(self, name: str, command: object, environ: object) -> None:
        self.names.append(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.signals.append((name, number))


class Registry:
    """A broker that knows workers and topics as the test says."""

    def __init__(self) -> None:
        self.rows: dict[str, WorkerRow] = {}
        self.topic = TopicStats(waiting=0, claimable=0, leased=0, started=0, completed=0, failed=0)
        self.away = False

    def stats(self) -> Stats:
        if self.away:
            raise BrokerUnavailable
        return Stats(topics={"t": self.topic}, workers=tuple(self.rows.values()))

    def fence(self, name: str, ttl: float) -> Fenced:
        row = self.rows[name]
        self.rows[name] = a_row(name, row.leased, WorkerState.FENCED, ttl)
        return Fenced(known=True, leased=row.leased)

    def unfence(self, name: str) -> bool:
        self.rows[name] = a_row(name, self.rows[name].leased)
        return True

    def work(self, claimable: int, leased: int = 0) -> None:
        self.topic = TopicStats(
            waiting=claimable, claimable=claimable, leased=leased, started=0, completed=0, failed=0
        )


def a_row(
    name: str,
    leased: int = 0,
    state: WorkerState = WorkerState.ACTIVE,
    fence_left: float | None = None,
) -> WorkerRow:
    beat = Beat(busy=leased)
    return WorkerRow(name, "i", state, 0.1, leased, WorkerInfo(slots=2), beat, fence_left)


class World:
    """A pool with everything around it, and a clock that is turned."""

    def __init__(self, policy: ScalingPolicy) -> None:
        self.started, self.registry, self.said = Started(), Registry(), [""]
        self.now = 1000.0
        program: Callable[[str], Program] = lambda name: Program((name,), {})  # noqa: E731
        self.pool = Pool("hello", policy, program, self.started, self.said.append)  # type: ignore[arg-type]

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.pool.tick(self.registry, self.now)  # type: ignore[arg-type]

    def register_all(self, leased: int = 0) -> None:
        for name in self.pool.workers:
            self.registry.rows[name] = a_row(name, leased)


@pytest.fixture
def world() -> World:
    return World(ScalingPolicy(slots=2, minimum=1, maximum=3, stabilization=5.0, idle_after=1.0))


def test_the_least_number_is_started_at_once(world: World) -> None:
    world.tick()
    assert world.started.names == ["hello-1"]
    assert "0 → 1 workers" in world.said[-1]


def test_a_backlog_starts_more_up_to_the_most(world: World) -> None:
    world.registry.work(claimable=50)
    world.tick()
    assert world.started.names == ["hello-1", "hello-2", "hello-3"]
    assert "limited by max" in world.said[-1]


def test_scale_in_fences_waits_for_idle_and_only_then_stops(world: World) -> None:
    world.registry.work(claimable=50)
    world.tick()
    world.register_all(leased=2)
    world.registry.work(claimable=0, leased=2)  # one worker's slots are enough from now on
    world.tick()
    busy_until = 20
    for _ in range(busy_until):
        world.tick()
    fenced = {name for name, row in world.registry.rows.items() if row.state is WorkerState.FENCED}
    assert fenced
    assert world.started.signals == []  # all of them still hold tasks
    for name in fenced:
        left = world.registry.rows[name].fence_left
        world.registry.rows[name] = a_row(name, 0, WorkerState.FENCED, left)
    for _ in range(3):
        world.tick()
    stopped = {name for name, number in world.started.signals if number is signal.SIGTERM}
    assert stopped
    assert stopped <= fenced


def test_work_that_returns_takes_a_fence_back_before_anything_is_started(world: World) -> None:
    world.registry.work(claimable=50)
    world.tick()
    world.register_all(leased=2)
    world.registry.work(claimable=0, leased=2)
    for _ in range(10):
        world.tick()
    assert any(row.state is WorkerState.FENCED for row in world.registry.rows.values())
    world.registry.work(claimable=50, leased=2)
    world.tick()
    assert all(row.state is WorkerState.ACTIVE for row in world.registry.rows.values())
    assert len(world.started.names) == 3


def test_an_outage_of_the_broker_changes_nothing(world: World) -> None:
    world.tick()
    world.registry.away = True
    for _ in range(30):
        world.tick(10.0)
    assert world.started.names == ["hello-1"]
    assert world.started.signals == []


def test_a_worker_that_ends_by_itself_is_replaced(world: World) -> None:
    world.tick()
    world.pool.ended("hello-1", 1, world.now + 1)
    assert world.started.names == ["hello-1"]  # not before somebody could give the pool up
    world.tick()
    assert world.started.names == ["hello-1", "hello-2"]
    assert world.pool.short_lives == 1
    world.tick(100.0)
    world.pool.ended("hello-2", -9, world.now)
    assert world.pool.short_lives == 0


def test_other_settings_renew_the_workers_and_the_same_do_not(world: World) -> None:
    world.tick()
    same: Callable[[str], Program] = lambda name: Program((name,), {})  # noqa: E731
    assert not world.pool.change(same)
    assert world.started.signals == []
    other: Callable[[str], Program] = lambda name: Program((name, "--more"), {})  # noqa: E731
    assert world.pool.change(other)
    assert world.started.signals == [("hello-1", signal.SIGTERM)]
    world.tick()
    assert world.started.names == ["hello-1", "hello-2"]


def test_after_draining_nothing_is_replaced(world: World) -> None:
    world.tick()
    world.pool.drain()
    assert world.started.signals == [("hello-1", signal.SIGTERM)]
    world.pool.ended("hello-1", 0, world.now)
    assert world.started.names == ["hello-1"]


def test_a_process_is_ready_from_its_registration_until_it_is_emptied() -> None:
    starting = Worker("a", born=0.0)
    working, emptied = Worker("b", 0.0, ready_at=2.0), Worker("c", 0.0, ready_at=2.0)
    stats = Stats(workers=(a_row("b", 1), a_row("c", 0, WorkerState.FENCED, 100.0)))
    first, second, third = pods([starting, working, emptied], stats, 10.0)
    assert (first.ready, first.started, first.age) == (False, False, 10.0)
    assert (second.ready, second.start_took) == (True, 2.0)
    assert (third.ready, third.started) == (False, True)
