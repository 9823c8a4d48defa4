"""When the watch wakes up: its looks at several trees are taken together, and never late."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from itertools import count, pairwise, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from millgate.runtime import memory as memory_module
from millgate.runtime.handle import Phase
from millgate.runtime.memory import Memory
from millgate.runtime.recycle import LATEST, Ceilings
from support.clock import FakeClock

TREES = 16


class Naps:
    """Stands in for the watch's event: time passes while it waits, or something happens instead."""

    def __init__(self, clock: FakeClock, end: float) -> None:
        self.taken: list[float] = []
        self.instead: Callable[[], bool] = lambda: False
        self._clock = clock
        self._end = end

    def is_set(self) -> bool:
        return self._clock.monotonic() >= self._end

    def set(self) -> None: ...
    def clear(self) -> None: ...

    def wait(self, seconds: float) -> None:
        self.taken.append(self._clock.monotonic())
        if not self.instead():
            self._clock.advance(seconds)


class Spied:
    """A tree that notes when it was measured."""

    def __init__(self, clock: FakeClock) -> None:
        self.looks: list[float] = []
        self.walks = 0
        self.defunct = self.resident = 0
        self._clock = clock

    def grew(self) -> bool:
        return False

    def refresh(self) -> None:
        self.walks += 1

    def size(self, above: int | None = None) -> int:
        self.looks.append(self._clock.monotonic())
        return 0


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The number of a process that may be told that the kernel may kill it."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_trees_that_came_one_by_one_are_soon_looked_at_together(
    sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    began = clock.monotonic()
    naps = Naps(clock, began + 40 * LATEST)
    memory = Memory(Ceilings(soft=2**40), None, 1, clock)
    monkeypatch.setattr(memory, "_stop", naps)
    monkeypatch.setattr(memory, "_bell", naps)
    trees: list[Spied] = []

    def adopt() -> bool:
        if len(trees) == TREES:
            return False
        child: Any = SimpleNamespace(key=len(trees), pid=sleeper, phase=Phase.READY, because=None)
        memory.adopt(child)
        trees.append(Spied(clock))
        monkeypatch.setattr(memory._watched[child.key], "tree", trees[-1])
        clock.advance(LATEST / TREES)
        return True

    naps.instead = adopt
    memory.run()

    late = began + 20 * LATEST
    wakes = sum(at > late for at in naps.taken)
    assert wakes <= 2 * 20 + 20  # two groups of trees, and the look at the pod
    for tree in trees:
        looks = [at for at in tree.looks if at > late]
        assert len(looks) >= 19
        assert all(b - a <= LATEST + 1e-6 for a, b in pairwise(looks))


class Numbers:
    """Stands in for the numbers that the kernel gives to processes."""

    def __init__(self, numbers: Iterator[int | None]) -> None:
        self._numbers = numbers

    def latest(self) -> int | None:
        return next(self._numbers)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("numbers", "fewest", "most"),
    [
        (repeat(7), 5, 6),  # nobody is born
        (count(1), 18, 21),
        (repeat(None), 18, 21),  # nobody can tell
    ],
)
def test_trees_are_walked_often_only_while_processes_are_born(
    sleeper: int,
    monkeypatch: pytest.MonkeyPatch,
    numbers: Iterator[int | None],
    fewest: int,
    most: int,
) -> None:
    clock = FakeClock()
    naps = Naps(clock, clock.monotonic() + 10.0)
    monkeypatch.setattr(memory_module, "Births", lambda: Numbers(numbers))
    memory = Memory(Ceilings(soft=2**40), None, 1, clock)
    monkeypatch.setattr(memory, "_stop", naps)
    monkeypatch.setattr(memory, "_bell", naps)
    child: Any = SimpleNamespace(key=1, pid=sleeper, phase=Phase.READY, because=None)
    memory.adopt(child)
    tree = Spied(clock)
    monkeypatch.setattr(memory._watched[1], "tree", tree)

    memory.run()

    assert fewest <= tree.walks <= most
