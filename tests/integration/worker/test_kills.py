"""SIGKILL at moments that nobody chose: whichever process it hits, nothing is lost, or run beside itself or its key."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from millgate.retry import Backoff, RetryPolicy
from millgate.runtime.processes import children_of
from support import judge
from support.bench import every_broker
from support.wait import eventually

#: Killed in turn, each at a moment of its own.
VICTIMS = ("guardian", "supervisor", "child")
MOMENTS = st.tuples(*[st.floats(0.0, 0.7) for _ in VICTIMS])
LENGTHS = (0.01, 0.05, 0.1, 0.3)
#: Of which one at a time may run; those of other lengths have no key.
KEYS = {0.05: "a", 0.1: "b"}


class Fleet:
    """Two workers, one of which is hit; what is hit below the supervisor heals by itself."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._workers = [bench.ready(), bench.ready()]
        self.deaths: dict[int, float] = {}  # processes that were ended here

    def kill(self, victim: str, moment: float) -> None:
        """Wait, kill, and have two workers again."""
        time.sleep(moment)
        worker = self._workers.pop(0)
        pid = eventually(lambda: self._process(worker, victim))  # it may have been started just now
        ended = worker.tree() if victim != "child" else [pid]
        now = time.time()
        os.kill(pid, signal.SIGKILL)
        self.deaths |= dict.fromkeys(ended, now)
        if victim == "child":
            self._workers.append(worker)
            return
        worker.wait(5)
        self._workers.append(self._bench.start())

    @staticmethod
    def _process(worker: Any, victim: str) -> int | None:
        if victim == "guardian":
            return int(worker.guardian)
        below = children_of(worker.guardian)
        if victim == "child":
            below = [child for supervisor in below for child in children_of(supervisor)]
        return below[0] if below else None

    def ends(self) -> dict[int, float]:
        """When processes ended, those that their workers ended themselves included."""
        found = dict(self.deaths)
        for worker in self._bench.workers:
            for line in worker.events("child ended"):
                ended = datetime.fromisoformat(line["time"]).timestamp()
                found.setdefault(int(line["child"]), ended)
        return found


def runs(notes: Sequence[Sequence[str]]) -> list[judge.Run]:
    """What the tasks' journal tells, as the judge reads it."""
    return judge.read(f"{word[0]} {id_} {pid} {at}" for word, id_, _, pid, at in notes)


@every_broker
def test_no_kill_loses_a_task_or_runs_it_beside_itself_or_another_of_its_key(bench: Any) -> None:
    bench.configure(
        lease=1.0,
        retry=RetryPolicy(losses=50, backoff=Backoff(initial=0.01, max=0.01)),
        key_limit=1,
    )
    fleet = Fleet(bench)
    sent: list[str] = []
    keyed: dict[str, str] = {}

    @settings(
        max_examples=7,  # times three kills
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a moment cannot be met again, so there is nothing to shrink
        suppress_health_check=list(HealthCheck),
    )
    @given(moments=MOMENTS)
    def torment(moments: tuple[float, ...]) -> None:
        for victim, moment in zip(VICTIMS, moments, strict=True):
            for length in LENGTHS:
                key = KEYS.get(length)
                sent.extend(bench.send_many("work", [(str(bench.journal), length)] * 5, key=key))
                keyed.update(dict.fromkeys(sent[-5:], key) if key else {})
            fleet.kill(victim, moment)
        states = bench.ends_of(sent[-len(VICTIMS) * 5 * len(LENGTHS) :], timeout=30)
        assert {state.state for state in states} == {"succeeded"}

    torment()
    assert len(fleet.deaths) >= 7 * len(VICTIMS)
    ran, ends = runs(bench.notes()), fleet.ends()
    verdict = judge.judge(sent, [], ran, ends)
    assert verdict.lost == ()
    assert verdict.beside == ()
    assert verdict.unfinished >= 7  # it did hit tasks that ran
    of_keys = [replace(run, id=keyed[run.id]) for run in ran if run.id in keyed]
    assert judge.judge((), (), of_keys, ends).beside == ()
