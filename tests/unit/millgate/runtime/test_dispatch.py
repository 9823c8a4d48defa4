"""Which child gets which run: slots first, buffers only for what is known to be short, and nothing held for long."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.message import Claim
from millgate.retry import RetryPolicy
from millgate.runtime import wire
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.estimate import FRAME, Runtimes
from millgate.runtime.handle import Phase
from millgate.runtime.ledger import Run
from millgate.runtime.table import BUFFERED, Table, rows_for
from millgate.runtime.terms import Terms
from support.clock import FakeClock

TERMS = Terms(None, 60.0, RetryPolicy(), None)


class FakeChild:
    """What the dispatcher needs of a child, with a page of its own."""

    def __init__(self, key: int, slots: int = 1) -> None:
        self.key, self.phase, self.left, self.lease = key, Phase.READY, None, 0.0
        self.runs: dict[int, Run] = {}
        self.table = Table.create(slots)
        self.frames: list[list[Any]] = []

    def send(self, frame: bytes) -> None:
        for word, jobs in wire.frames_of(frame):
            assert word == "run"
            self.frames.append([job[1] for job in jobs])

    def started(self) -> list[tuple[int, Run]]:
        return [(seq, run) for seq, run in self.runs.items() if seq <= self.table.started]

    def buffered(self) -> list[tuple[int, Run]]:
        return [(seq, run) for seq, run in self.runs.items() if seq > self.table.started]

    def oldest(self, now: float) -> float | None:
        return max((now - self.table.started_at(seq) for seq, _ in self.started()), default=None)

    def start_next(self, now: float) -> Run:
        seq, run = self.buffered()[0]
        assert self.table.take(seq, now)
        return run

    def finish(self, run: Run) -> None:
        del self.runs[run.seq]


class Scene:
    def __init__(self, children: int = 2, slots: int = 1) -> None:
        self.clock = FakeClock()
        self.runtimes = Runtimes()
        self.dispatcher = Dispatcher(slots, self.runtimes, self.clock)
        self.children: list[Any] = [FakeChild(key, slots) for key in range(children)]
        self.count = 0

    def claim(self, count: int, task: str = "short") -> list[Run]:
        runs = []
        for _ in range(count):
            self.count += 1
            claim = Claim(f"{task}{self.count}", "default", f"t{self.count}", b"")
            runs.append(Run(claim, task, TERMS, arrived=self.clock.monotonic()))
        self.dispatcher.add(runs)
        return runs

    def learn(self, task: str, seconds: float) -> None:
        for _ in range(60):
            self.runtimes.learn(task, seconds)

    def hand_out(self) -> list[int]:
        self.dispatcher.hand_out(self.children)
        return [len(child.runs) for child in self.children]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_unknown_tasks_go_only_where_they_start_at_once(scene: Scene) -> None:
    scene.claim(5)
    assert scene.hand_out() == [1, 1]
    assert len(scene.dispatcher) == 3
    assert scene.dispatcher.target(scene.children, scene.clock.monotonic()) == 2


def test_several_slots_are_filled_across_children() -> None:
    scene = Scene(children=2, slots=3)
    scene.claim(4)
    assert scene.hand_out() == [2, 2]


def test_nothing_waits_while_a_slot_is_free() -> None:
    scene = Scene(children=2, slots=3)
    busy, idle = scene.children
    idle.phase = Phase.STARTING
    scene.claim(2)
    assert scene.hand_out() == [2, 0]
    idle.phase = Phase.READY
    scene.claim(4)
    assert scene.hand_out() == [3, 3]
    assert [len(busy.frames), len(idle.frames)] == [2, 1]


def test_short_tasks_go_out_in_frames_and_never_more_than_two_of_them(scene: Scene) -> None:
    scene.learn("short", 0.0001)
    scene.claim(6 * FRAME)
    assert scene.hand_out() == [2 * FRAME, 2 * FRAME]
    assert [[len(jobs) for jobs in child.frames] for child in scene.children] == [[FRAME] * 2] * 2
    scene.hand_out()
    scene.hand_out()
    assert all(len(child.runs) <= BUFFERED + 1 for child in scene.children)


def test_a_child_is_fed_again_by_the_frame_and_not_one_by_one() -> None:
    scene = Scene(children=1)
    scene.learn("short", 0.0001)
    scene.claim(100)
    [child] = scene.children
    scene.hand_out()
    scene.hand_out()
    before = len(child.frames)
    now = scene.clock.monotonic()
    for _ in range(3):
        child.finish(child.start_next(now))
        scene.hand_out()
    assert len(child.frames) == before


def test_a_few_tasks_are_shared_and_not_given_to_one(scene: Scene) -> None:
    scene.learn("short", 0.001)
    scene.claim(6)
    assert scene.hand_out() == [3, 3]


def test_the_buffer_is_what_a_child_finishes_in_a_moment(scene: Scene) -> None:
    scene.learn("middling", 0.02)
    scene.claim(20, "middling")
    assert scene.hand_out() == [3, 3]


def test_nothing_waits_behind_a_run_that_turned_out_long() -> None:
    scene = Scene(children=1)
    [child] = scene.children
    scene.learn("short", 0.001)
    scene.claim(10)
    scene.hand_out()
    child.start_next(scene.clock.monotonic())
    assert len(child.runs) == 10
    scene.clock.advance(0.2)
    scene.dispatcher.relieve(scene.children, scene.clock.monotonic())
    assert len(child.runs) == 1
    assert len(scene.dispatcher) == 9
    assert scene.hand_out() == [1]  # it does not flow: nothing goes back to it
    assert [run.claim.id for run in scene.dispatcher.waiting()][:2] == ["short2", "short3"]
    assert not child.table.take(2, 0.0)


def test_what_will_soon_be_started_is_left_where_it_is() -> None:
    scene = Scene(children=1, slots=2)
    [child] = scene.children
    scene.learn("short", 0.001)
    scene.claim(10)
    scene.hand_out()
    child.start_next(scene.clock.monotonic())
    scene.dispatcher.relieve(scene.children, scene.clock.monotonic())
    assert len(child.runs) == 10
    scene.clock.advance(0.2)  # it turned out long, but there is another slot
    child.start_next(scene.clock.monotonic())
    scene.dispatcher.relieve(scene.children, scene.clock.monotonic())
    assert len(child.runs) == 10


def test_what_waits_too_long_is_taken_out_for_others(scene: Scene) -> None:
    scene.claim(4)
    scene.hand_out()
    now = scene.clock.monotonic()
    assert scene.dispatcher.late(scene.children, now + 0.2) == []
    assert len(scene.dispatcher.late(scene.children, now + 0.3)) == 2
    assert len(scene.dispatcher) == 0


def test_a_child_that_is_about_to_start_is_waited_for(scene: Scene) -> None:
    scene.claim(4)
    scene.hand_out()
    scene.children[0].phase = Phase.STARTING
    assert scene.dispatcher.late(scene.children, scene.clock.monotonic() + 1.0) == []


def test_a_run_that_was_left_alone_is_first_in_line_again(scene: Scene) -> None:
    first, second = scene.claim(2)
    scene.hand_out()
    scene.claim(1)
    scene.children[0].left = 0
    scene.dispatcher.left(scene.children[0], first.seq)
    assert scene.children[0].left == 1
    assert scene.dispatcher.waiting()[0] is first
    scene.dispatcher.left(scene.children[0], 999)
    assert second in scene.children[1].runs.values()


def test_a_child_gets_no_more_than_it_may_still_run(scene: Scene) -> None:
    scene.learn("short", 0.0001)
    scene.claim(50)
    scene.children[0].left = 5
    scene.children[1].left = 0
    assert scene.hand_out() == [5, 0]
    assert scene.children[0].left == 0
    scene.dispatcher.take_back(scene.children[0])
    assert scene.children[0].left == 5


def test_the_target_falls_when_children_are_held(scene: Scene) -> None:
    scene.learn("short", 0.001)
    now = scene.clock.monotonic()
    both = scene.dispatcher.target(scene.children, now)
    scene.claim(1)
    scene.hand_out()
    scene.children[0].start_next(now)
    scene.clock.advance(1.0)
    one = scene.dispatcher.target(scene.children, scene.clock.monotonic())
    assert both == 2 * (1 + 50)
    assert one == 2 + 50
    scene.children[1].phase = Phase.RETIRING
    assert scene.dispatcher.target(scene.children, scene.clock.monotonic()) == 1


def test_long_runs_keep_their_rows_beside_any_number_of_short_ones() -> None:
    scene = Scene(children=1, slots=3)
    [child] = scene.children
    scene.claim(2, "long")
    scene.hand_out()
    longs = {}
    for _ in range(2):
        longs[scene.clock.monotonic()] = child.start_next(scene.clock.monotonic())
        scene.clock.advance(1.0)
    for _ in range(3 * rows_for(3)):
        scene.clock.advance(1.0)
        scene.claim(1)
        scene.hand_out()
        short = child.start_next(scene.clock.monotonic())
        child.table.cancel(short.seq)
        child.finish(short)
    for began, long in longs.items():
        child.table.cancel(long.seq)
        assert child.table.started_at(long.seq) == began  # timeouts count from it
        assert child.table.cancelled(long.seq)
