"""The supervisor's side of a child: results that lie in the page, and which run it is at."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from millgate.message import Claim
from millgate.retry import RetryPolicy
from millgate.runtime import wire
from millgate.runtime.capture import Capture
from millgate.runtime.handle import Child, Phase
from millgate.runtime.ledger import Run
from millgate.runtime.reactor import Reactor
from millgate.runtime.spawn import Spawned
from millgate.runtime.table import Table
from millgate.runtime.terms import Terms


class Scene:
    """A child whose process is this one: nothing is ever killed here. `page` is the child's own view."""

    def __init__(self, slots: int) -> None:
        self.reactor = Reactor()
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        reading, self.output = os.pipe()
        os.set_blocking(reading, False)
        table = Table.create(slots)
        self.page = Table(table.descriptor, slots)
        own = os.getpid()
        spawned = Spawned(own, os.pidfd_open(own), ours, table, reading, lambda: 0)
        self.child = Child(1, spawned, self.reactor, now=0.0)
        self.child.listen = lambda _run: Capture(lambda _line: None)
        self.frames: list[Any] = []
        self.child.on_frames = lambda _child, frames: self.frames.extend(frames)

    def keep(self, number: int) -> None:
        assert self.page.keep(wire.encode(["done", number]))

    def run(self, *numbers: int) -> None:
        claim = Claim("a", "default", "1", b"")
        terms = Terms(None, 10.0, RetryPolicy(), None)
        self.child.runs = {number: Run(claim, "task", terms) for number in numbers}

    def exit(self) -> None:
        self.child._on_exit(0)  # what the reactor calls when the process has ended

    def close(self) -> None:
        self.theirs.close()
        os.close(self.output)
        if self.child.phase is not Phase.DEAD:
            self.exit()
        self.child.table.close()
        self.reactor.close()


@pytest.fixture(params=[1])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(request.param)
    yield made
    made.close()


def test_what_a_child_keeps_for_long_is_taken_at_the_second_look(scene: Scene) -> None:
    assert not scene.child.collect()
    scene.keep(1)
    assert scene.child.collect()  # worth another look soon
    assert scene.frames == []
    scene.keep(2)
    assert scene.child.collect()
    assert scene.frames == [["done", 1]]
    assert not scene.child.collect()  # nothing new: there is no hurry
    assert scene.frames[-1] == ["done", 2]


def test_what_was_sent_between_two_looks_is_not_taken(scene: Scene) -> None:
    scene.keep(1)
    scene.child.collect()
    scene.page.clear()
    scene.keep(2)
    assert scene.child.collect()
    assert scene.frames == []


def test_what_a_child_kept_when_it_ended_counts_after_what_it_had_sent(scene: Scene) -> None:
    scene.theirs.sendall(wire.encode(["done", 1]))
    scene.keep(2)
    scene.exit()
    assert scene.frames == [["done", 1], ["done", 2]]


def test_with_one_slot_only_the_last_run_that_was_taken_up_is_in_progress(scene: Scene) -> None:
    scene.run(1, 2, 3)
    scene.page.take(1, now=1.0)
    scene.page.take(2, now=2.0)
    assert [number for number, _ in scene.child.started()] == [2]
    assert [scene.child.runs_now(number) for number in (1, 2, 3, 4)] == [False, True, True, False]
    assert scene.child.oldest(now=5.0) == 3.0


@pytest.mark.parametrize("scene", [4], indirect=True)
def test_with_several_slots_all_that_were_taken_up_are(scene: Scene) -> None:
    scene.run(1, 2, 3)
    scene.page.take(1, now=1.0)
    scene.page.take(2, now=2.0)
    assert [number for number, _ in scene.child.started()] == [1, 2]
    assert scene.child.runs_now(1)
    assert scene.child.oldest(now=5.0) == 4.0


@pytest.mark.parametrize("scene", [8], indirect=True)
def test_other_threads_may_ask_while_runs_come_and_go(scene: Scene) -> None:
    scene.run(*range(1, 120))
    scene.page.take(119, 1.0)
    [run, *_] = scene.child.runs.values()
    going = True

    def come_and_go() -> None:
        while going:
            scene.child.runs[500] = run
            time.sleep(0)
            del scene.child.runs[500]
            time.sleep(0)

    former, thread = sys.getswitchinterval(), threading.Thread(target=come_and_go)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(3000):
            assert len(scene.child.started()) >= 119
            assert scene.child.buffered() in ([], [(500, run)])
    finally:
        going = False
        thread.join()
        sys.setswitchinterval(former)


def looks(scene: Scene, start: float, seconds: float, every: float = 0.05) -> list[bool]:
    count = int(seconds / every)
    return [scene.child.neglects(start + every * number) for number in range(1, count + 1)]


def test_a_child_that_leaves_its_next_run_alone_for_long_neglects_it(scene: Scene) -> None:
    scene.run(5)
    assert not any(looks(scene, 0.0, 29.9))
    assert any(looks(scene, 29.9, 1.0))


def test_a_run_that_is_taken_up_is_not_neglected_however_long_it_is(scene: Scene) -> None:
    scene.run(5, 6)
    assert not any(looks(scene, 0.0, 20.0))
    scene.page.take(5, 20.0)
    assert not any(looks(scene, 20.0, 100.0))
    scene.run(6)
    assert not any(looks(scene, 120.0, 29.0))
    scene.run()
    assert not any(looks(scene, 149.0, 100.0))


def test_time_in_which_nobody_looked_does_not_count(scene: Scene) -> None:
    scene.run(5)
    assert not any(looks(scene, 0.0, 3000.0, every=100.0))
