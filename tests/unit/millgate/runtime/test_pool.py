"""Who is let go, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from millgate.runtime.handle import Phase
from millgate.runtime.pool import Pool
from millgate.runtime.recycle import Because, Bounds
from support.clock import FakeClock


def test_a_child_keeps_the_last_jobs_that_it_was_given_beside_a_spare() -> None:
    taken: list[Any] = []
    dispatcher: Any = SimpleNamespace(
        take_back=lambda child: taken.extend(child.runs) or [], add_first=lambda runs: None
    )
    others: dict[str, Any] = dict.fromkeys(
        ("spawner", "reactor", "memory", "verdict", "journal", "metrics")
    )
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
