"""Figures of a run: quantiles, differences of counters, peaks, and what log lines are shown."""

from __future__ import annotations

import json
import random

import pytest

from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.stats import Stats, TopicStats
from millgate_operator.dev.tally import Tally, Waits


def stats(completed: int | None, failed: int | None, rss: int | None = None) -> Stats:
    row = WorkerRow("w1", "i", WorkerState.ACTIVE, 0.0, 0, WorkerInfo(), Beat(rss=rss))
    return Stats(topics={"t": TopicStats(completed=completed, failed=failed)}, workers=(row,))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99])
def test_quantiles_are_right_within_a_bucket(share: float) -> None:
    draw = random.Random(7)
    values = [draw.lognormvariate(-2, 2) for _ in range(5000)]
    waits = Waits()
    for value in values:
        waits.add(value)
    exact = sorted(values)[int(share * len(values))]
    assert waits.quantile(share) == pytest.approx(exact, rel=0.06, abs=0.0006)
    assert len(waits.buckets) < 400


def test_no_waits_have_no_quantile() -> None:
    assert Waits().quantile(0.5) is None


def test_what_the_counters_showed_before_is_not_of_this_run() -> None:
    tally = Tally()
    tally.begin(stats(100, 7))
    tally.read(stats(150, 8))
    assert (tally.topics["t"].done, tally.topics["t"].failed) == (50, 1)


def test_an_unknown_count_stays_unknown() -> None:
    tally = Tally()
    tally.begin(stats(100, 7))
    tally.read(stats(None, 8))
    assert tally.topics["t"].done is None


def test_the_peak_of_a_worker_is_kept() -> None:
    tally = Tally()
    for rss in (None, 50, 90, 60, None):
        tally.read(stats(1, 0, rss))
    assert tally.workers["w1"].peak == 90


def test_warnings_are_shown_and_the_rest_only_when_asked() -> None:
    tally = Tally()
    info = json.dumps({"time": "t", "level": "info", "event": "task done", "id": "x"})
    warning = json.dumps({"time": "t", "level": "warning", "event": "broker away", "for": 3})
    assert tally.line("w1", info, verbose=False) is None
    assert tally.line("w1", info, verbose=True) == "info task done id=x"
    assert tally.line("w1", warning, verbose=False) == "warning broker away for=3"


def test_what_a_task_prints_is_shown_as_it_is_and_a_traceback_below_its_line() -> None:
    tally = Tally()
    output = {"level": "info", "event": "output", "task": "t", "text": "hello"}
    buried = {
        "level": "error",
        "event": "task buried",
        "task": "t",
        "traceback": "line 1\nline 2\n",
    }
    assert tally.line("w1", json.dumps(output), verbose=False) == "hello"
    assert tally.line("w1", json.dumps(buried), verbose=False) == (
        "error task buried task=t\nline 1\nline 2"
    )


def test_tasks_waits_and_ended_children_are_counted_for_their_worker() -> None:
    tally = Tally()
    for waited in (0.1, 0.2, 0.4):
        line = {"level": "debug", "event": "task succeeded", "topic": "t", "waited": waited}
        tally.line("w1", json.dumps(line | {"seconds": 0.1}), verbose=False)
    back = {"level": "info", "event": "task goes back", "topic": "t", "waited": 9.0}
    tally.line("w1", json.dumps(back), verbose=False)
    for reason in ("MaxRSS", "MaxRSS", "HardMaxRSS", "OOMKilled", "Drained"):
        line = {"level": "info", "event": "child ended", "reason": reason}
        tally.line("w2", json.dumps(line), verbose=False)
    assert tally.workers["w1"].tasks == 3
    assert tally.topics["t"].waits.quantile(0.5) == pytest.approx(0.2, rel=0.05)
    assert (tally.workers["w2"].recycled, tally.workers["w2"].stopped) == (2, 2)


@pytest.mark.parametrize("text", ["Traceback (most recent call last):", "{not json", '{"a": 1}'])
def test_what_is_no_log_record_is_shown_as_it_is(text: str) -> None:
    assert Tally().line("w1", text, verbose=False) == text
