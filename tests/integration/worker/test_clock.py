"""The machine's wall clock steps while tasks run: nothing is lost, run twice, or held up for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.bench import every_broker
from support.steppable import Steppable
from support.wait import eventually

HOUR = 3600


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stands between a program and its wall clock."""
    return Steppable.build(tmp_path_factory.mktemp("clock"))


@every_broker
@pytest.mark.parametrize("step", [-HOUR, HOUR], ids=["back", "ahead"])
def test_a_clock_set_by_an_hour_harms_nothing(
    bench: Any, library: Path, tmp_path: Path, step: int
) -> None:
    bench.configure(lease=2.0)
    clock = Steppable(library, tmp_path / "offset")
    worker = bench.ready(children=2, environ=clock.environ)
    running = bench.send("work", str(bench.journal), 3.0)
    [before] = bench.until_noted("start")
    clock.step(step)
    after = bench.send_many("work", [(str(bench.journal), 0.1)] * 10)
    for sent in after:
        assert bench.result(sent, timeout=10) is not None
    assert bench.result(running, timeout=10) is not None
    assert {state.attempt for state in bench.broker.states([running, *after])} == {1}
    later = [line for line in bench.notes("start") if line[1] in after]
    assert len(later) == 10
    # the tasks themselves saw the clock step
    assert all(step < float(line[4]) - float(before[4]) < step + 60 for line in later)
    assert worker.events("lease was lost, the end of this run counts for nothing") == []
    assert worker.events("child ended") == []
    assert worker.get("/livez")[0] == 200


@every_broker
def test_a_lease_is_not_kept_longer_because_a_dead_workers_clock_was_wrong(
    bench: Any, library: Path, tmp_path: Path
) -> None:
    bench.configure(lease=1.0)
    clock = Steppable(library, tmp_path / "offset")
    clock.step(HOUR)
    sent = bench.send("work", str(bench.journal), 5.0)
    ahead = bench.ready(children=1, environ=clock.environ)
    bench.until_noted("start")
    second = bench.ready(children=1)
    ahead.end()
    # by its clock the lease would end in an hour
    eventually(lambda: len(bench.notes("start")) == 2, timeout=60)
    assert bench.end_of(sent).attempt == 2
    assert second.events("broker failed") == []
