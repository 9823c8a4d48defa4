"""What the watch knows of the pod: whether there is room for one more, and which tree has most."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millgate.clock import SystemClock
from millgate.runtime import memory as memory_module
from millgate.runtime.cgroup import Cgroup
from millgate.runtime.handle import Phase
from millgate.runtime.memory import Memory
from millgate.runtime.recycle import Because, Ceilings
from support.clock import FakeClock
from support.wait import eventually

M = 2**20


def in_a_pod(folder: Path, usage: int, cache: int) -> Memory:
    """A watch that has looked once, in a pod of 1000 MiB whose children begin with 100."""
    (folder / "memory.current").write_text(f"{usage}\n", encoding="ascii")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\n", encoding="ascii")
    memory = Memory(Ceilings(pod=1000 * M), Cgroup(folder, 2), 1, FakeClock())
    memory._baseline = 100 * M
    memory._look_at_pod(0.0)
    return memory


@pytest.mark.parametrize(
    ("usage", "cache", "coming", "room"),
    [
        (500, 0, 0, True),
        (500, 0, 2, True),  # 330 for three
        (600, 0, 2, False),
        (700, 0, 1, False),
        (700, 300, 1, True),  # it is mostly cache, though too little to be looked at by the watch
    ],
)
def test_there_is_room_for_what_is_still_growing_too_and_cache_takes_none(
    tmp_path: Path, usage: int, cache: int, coming: int, room: bool
) -> None:
    assert in_a_pod(tmp_path, usage * M, cache * M).room_for_spare(coming) is room


def test_a_child_that_is_born_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "LATEST", 60.0)
    memory = Memory(Ceilings(hard=1000 * M), None, 1, SystemClock())
    watch = threading.Thread(target=memory.run, daemon=True)
    watch.start()
    eventually(lambda: memory._pod_due)  # it has looked, and sleeps for a minute
    with subprocess.Popen(["sleep", "60"]) as process:
        fields = {"key": 1, "pid": process.pid, "because": None, "size": None}
        child: Any = SimpleNamespace(phase=Phase.STARTING, **fields)
        memory.adopt(child)
        try:
            eventually(lambda: child.size, timeout=10)
        finally:
            process.kill()
    memory.stop()
    watch.join(10)
    assert not watch.is_alive()


class FakeTree:
    def __init__(self, rss: int, share: int) -> None:
        self._rss, self._share = rss, share
        self.looks = 0

    def rss(self) -> int:
        return self._rss

    def share(self) -> int:
        self.looks += 1
        return self._share

    def size(self, above: int) -> int:
        return self.share()


@pytest.mark.parametrize(
    ("trees", "victim", "looks"),
    [
        ([(300, 300), (500, 500), (400, 400)], 1, 1),  # who has most by either is found at once
        ([(300, 300), (900, 200), (250, 250)], 0, 2),  # most of it is shared
    ],
)
def test_the_tree_to_stop_is_the_one_that_really_has_most(
    tmp_path: Path, trees: list[tuple[int, int]], victim: int, looks: int
) -> None:
    memory = in_a_pod(tmp_path, 100 * M, 0)
    killed: list[tuple[int, Because]] = []
    made = [FakeTree(rss * M, share * M) for rss, share in trees]
    for key, tree in enumerate(made):
        child: Any = SimpleNamespace(forked=False, phase=Phase.READY, size=None)
        child.kill = lambda because, key=key: killed.append((key, because))
        memory._watched[key] = SimpleNamespace(child=child, tree=tree)  # type: ignore[assignment]
    (tmp_path / "memory.current").write_text(f"{950 * M}\n", encoding="ascii")
    memory._look_at_pod(1.0)
    assert killed == [(victim, Because.POD_BUDGET)]
    assert memory._watched[victim].child.size == made[victim]._share
    assert sum(tree.looks for tree in made) == looks
