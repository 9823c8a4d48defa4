"""Who is let go, and when."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

from millgate.errors import EXIT_LIMITS
from millgate.runtime.handle import Phase
from millgate.runtime.pool import START_TIMEOUT, Pool
from millgate.runtime.recycle import Because, Bounds
from support.clock import FakeClock


class Scene:
    """A pool for one child in a pod that may have room for a second one; starts are only counted."""

    def __init__(self, *, room: bool) -> None:
        self.starts = 0
        self.clock = FakeClock()
        self.asked: list[int] = []
        dispatcher: Any = SimpleNamespace(
            take_back=lambda _child: [],
            add_first=lambda _runs: None,
            seconds_for=lambda _count: None,
        )
        memory: Any = SimpleNamespace(room_for_spare=lambda coming: room and not coming)
        others: dict[str, Any] = dict.fromkeys(("spawner", "reactor", "burial"))
        self.said: list[str] = []
        others["journal"] = SimpleNamespace(
            say=lambda *_, problem="", **__: self.said.append(problem)
        )
        self.pool = Pool(
            1,
            Bounds(),
            hello=b"",
            dispatcher=dispatcher,
            memory=memory,
            clock=self.clock,
            **others,
        )
        self.pool._start = self._start  # type: ignore[method-assign]
        self.child = self._add(Phase.READY)
        self.child.runs[7] = None

    def _add(self, phase: Phase) -> Any:
        key = len(self.pool.children)
        child = SimpleNamespace(
            key=key,
            phase=phase,
            because=None,
            left=None,
            runs={},
            tasks=9,
            size=None,
            born=self.clock.monotonic(),
            pid=1,
        )
        child.neglects = lambda _now: False
        child.ask_to_end = lambda _now: self.asked.append(key)
        self.pool.children[key] = child  # type: ignore[assignment]
        return child

    def _start(self, _now: float) -> bool:
        self.starts += 1
        self._add(Phase.STARTING)
        return True


def test_a_pod_with_room_for_both_has_the_next_child_warm_before_the_old_one_goes() -> None:
    scene = Scene(room=True)
    scene.pool.replace(0, Because.MAX_RSS)
    scene.pool.keep(1.0)
    scene.pool.keep(2.0)
    assert (scene.child.phase, scene.starts) == (Phase.READY, 1)
    scene.pool.children[1].phase = Phase.STANDBY
    scene.pool.keep(3.0)
    assert (scene.child.phase, scene.asked, scene.starts) == (Phase.RETIRING, [], 1)


def test_a_pod_without_room_for_both_has_first_the_old_child_and_then_the_new_one() -> None:
    scene = Scene(room=False)
    scene.pool.replace(0, Because.MAX_RSS)
    scene.pool.keep(1.0)
    assert (scene.child.phase, scene.starts) == (Phase.RETIRING, 0)  # its task goes on
    scene.child.runs.clear()
    scene.pool.keep(2.0)
    assert (scene.asked, scene.starts) == ([0], 0)
    del scene.pool.children[0]
    scene.pool._leaving.clear()
    scene.pool.keep(3.0)
    assert scene.starts == 1


def test_a_child_whose_replacement_has_no_room_any_more_goes_without_it() -> None:
    scene = Scene(room=False)
    scene.pool._leaving.add(0)  # there was room when it was told
    scene.child.because = Because.MAX_RSS
    scene.pool.keep(1.0)
    assert (scene.child.phase, scene.starts) == (Phase.RETIRING, 0)


def test_a_child_that_does_not_get_ready_is_ended_and_another_one_takes_its_place() -> None:
    scene = Scene(room=True)
    del scene.pool.children[0]
    now = scene.clock.monotonic()
    scene.pool.keep(now)
    [hung] = scene.pool.children.values()
    killed: list[Because] = []
    hung.kill = killed.append  # type: ignore[method-assign]
    scene.pool.keep(now + START_TIMEOUT - 1.0)
    assert (killed, scene.said) == ([], [])
    scene.pool.keep(now + START_TIMEOUT + 1.0)
    assert killed == [Because.NOT_READY]
    assert "was not ready in 120s" in scene.said[0]
    scene.pool.children.clear()
    scene.pool.keep(now)
    assert scene.starts == 1  # not without a pause
    scene.clock.advance(60.0)
    scene.pool.keep(scene.clock.monotonic())
    assert scene.starts == 2


def test_a_child_keeps_the_last_jobs_that_it_was_given_beside_a_spare() -> None:
    taken: list[Any] = []
    dispatcher: Any = SimpleNamespace(
        take_back=lambda child: taken.extend(child.runs) or [], add_first=lambda runs: None
    )
    others: dict[str, Any] = dict.fromkeys(("spawner", "reactor", "memory", "burial", "journal"))
    pool = Pool(1, Bounds(tasks=5), hello=b"", dispatcher=dispatcher, clock=FakeClock(), **others)
    told: list[float] = []
    child: Any = SimpleNamespace(
        key=0,
        phase=Phase.READY,
        because=Because.MAX_TASKS,
        left=0,
        runs={7: None},
        ask_to_end=told.append,
    )
    spare: Any = SimpleNamespace(key=1, phase=Phase.STANDBY, runs={})
    pool.children.update({0: child, 1: spare})
    pool._leaving.add(0)
    pool._retire_leaving()
    assert (child.phase, taken, told) == (Phase.READY, [], [])
    child.runs.clear()
    pool.rest(child)
    assert child.phase is Phase.RETIRING
    assert len(told) == 1
    assert spare.phase is Phase.READY


def test_a_pool_whose_machine_gives_no_process_comes_to_an_end_and_not_beside_a_child() -> None:
    scene = Scene(room=True)

    def refuse() -> Any:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    scene.pool._spawner = SimpleNamespace(start=refuse)  # type: ignore[assignment]
    scene.pool._start = Pool._start.__get__(scene.pool)  # type: ignore[method-assign]
    scene.pool.wanted = 2
    ends: list[int] = []
    scene.pool.fatal = lambda code, _problem: ends.append(code)
    for _ in range(12):
        scene.pool.keep(scene.clock.monotonic())
        scene.clock.advance(60.0)
    assert len(scene.said) == 12
    assert ends == []  # the one that is there works
    scene.pool.children.clear()
    scene.pool.keep(scene.clock.monotonic())
    assert ends == [EXIT_LIMITS]
