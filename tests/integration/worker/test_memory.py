"""Memory ceilings: leaks are recycled away without a loss, a huge task is stopped alone, wherever its memory hides."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from millgate.runtime.rss import rss_of
from support.bench import every_broker_and_memory
from support.wait import eventually

MEGABYTE = 2**20
BARE = """
from millgate import App
app = App("memory://")

@app.task(name="nothing")
def nothing():
    pass
"""


def reasons(worker: Any) -> list[str]:
    return [line["reason"] for line in worker.events("child ended")]


@every_broker_and_memory
def test_a_leak_over_five_hundred_tasks_is_recycled_away_and_nothing_is_lost(
    bench: Any,
) -> None:
    ids = bench.send_many("leak", [(2,)] * 500)
    worker = bench.start(max_rss="60Mi", burst=True, children=2)
    assert worker.wait(90) == 0
    states = bench.broker.states(ids)
    assert {state.state for state in states} == {"succeeded"}
    assert {state.attempt for state in states} == {1}
    recycled = [line for line in worker.events("child ended") if line["reason"] == "MaxRSS"]
    assert len(recycled) >= 12  # 500 times 2 MiB do not fit into two children of 60
    assert max(line["rss"] for line in recycled) < 1.25 * 60 * MEGABYTE + 20 * MEGABYTE


@every_broker_and_memory
def test_a_huge_task_is_stopped_alone_and_buried_after_its_attempts(bench: Any) -> None:
    bench.configure()
    huge = bench.send("hog", str(bench.journal), 300)
    neighbours = bench.send_many("work", [(str(bench.journal), 0.3)] * 10)
    worker = bench.ready(hard_max_rss="100Mi")
    state = bench.end_of(huge, timeout=30)
    assert (state.state, state.reason, state.attempt) == ("failed", "MemoryExceeded", 2)
    for sent in neighbours:
        bench.result(sent)
        assert bench.state(sent).attempt == 1
    assert set(reasons(worker)) <= {"HardMaxRSS", "DataLimit"}


def test_one_allocation_over_the_ceiling_is_an_error_in_the_task(bench: Any) -> None:
    sent = bench.send("gulp", 2000)
    worker = bench.ready(hard_max_rss="150Mi", children=1)
    state = bench.end_of(sent)
    assert (state.state, state.reason) == ("failed", "MemoryExceeded")
    assert state.failure.error.endswith("MemoryError")
    eventually(lambda: reasons(worker) == ["DataLimit"])  # it raised its own limit to say so
    assert bench.result(bench.send("add", 1, 1)) == 2


def test_shared_memory_is_counted_too(bench: Any) -> None:
    sent = bench.send("map_shared", 400)
    worker = bench.ready(hard_max_rss="100Mi", children=1)
    state = bench.end_of(sent)
    assert (state.state, state.reason) == ("failed", "MemoryExceeded")
    assert reasons(worker) == ["HardMaxRSS"]
    assert 'millgate_recycles_total{reason="HardMaxRSS"} 1' in worker.get("/metrics")[1]
    assert worker.status()["recycles"] == {"HardMaxRSS": 1}


@every_broker_and_memory
@pytest.mark.parametrize("task", ["subprocess_hog", "daemon_hog"])
def test_memory_of_a_tasks_processes_counts_wherever_they_hide(bench: Any, task: str) -> None:
    sent = bench.send(task, 300)
    worker = bench.ready(hard_max_rss="100Mi", children=1)
    state = bench.end_of(sent)
    assert (state.state, state.reason) == ("failed", "MemoryExceeded")
    eventually(lambda: reasons(worker) == ["HardMaxRSS"])  # said after it was settled
    supervisor = worker.supervisor
    eventually(lambda: len(worker.tree()) == 3)  # guardian, supervisor, the new child
    assert worker.supervisor == supervisor


def test_the_watch_outlives_processes_that_end_under_its_eyes(bench: Any) -> None:
    churned = bench.send_many("churn", [(2.0,)] * 4)
    worker = bench.ready(hard_max_rss="100Mi", max_rss="80Mi")
    assert {state.state for state in bench.ends_of(churned)} == {"succeeded"}
    assert set(reasons(worker)) <= {"Defunct"}
    sent = bench.send("map_shared", 400)  # nothing but the watch stops it
    state = bench.end_of(sent)
    assert (state.state, state.reason) == ("failed", "MemoryExceeded")
    assert "HardMaxRSS" in reasons(worker)
    assert worker.events("internal error") == []
    assert {state.attempt for state in bench.broker.states(churned)} == {1}


def test_pages_that_forks_share_are_counted_once(bench: Any) -> None:
    sent = bench.send("share", 80, 4)  # 400 MiB, were they counted for each
    worker = bench.ready(hard_max_rss="200Mi", children=1)
    assert bench.result(sent) == 0
    assert reasons(worker) == []


def test_pages_that_forks_share_are_counted_once_for_the_pod_too(bench: Any) -> None:
    sent = bench.send("share", 80, 4)
    worker = bench.ready(memory="250Mi", children=1)
    assert bench.result(sent) == 0
    assert reasons(worker) == []


def test_the_pods_largest_tree_is_the_one_that_has_most_and_not_the_one_that_shares_most(
    bench: Any,
) -> None:
    bench.configure()
    shared = bench.send("share", 60, 8)  # 540 MiB, were they counted for each
    worker = bench.ready(memory="400Mi")
    eventually(lambda: len(worker.tree()) >= 12)  # the forks are there
    huge = bench.send("hog", str(bench.journal), 500)
    assert bench.result(shared) == 0
    assert bench.end_of(huge, timeout=30).reason == "MemoryExceeded"
    assert set(reasons(worker)) == {"PodBudget"}


BIG = """
from millgate import App
app = App("memory://")
kept = b"k" * (120 * 2**20)

@app.task(name="nothing")
def nothing():
    return kept[-1]
"""


def test_what_children_share_with_their_template_is_counted_once_for_the_pod(
    bench: Any, tmp_path: Path
) -> None:
    (tmp_path / "large.py").write_text(BIG, encoding="utf-8")
    sent = bench.send_many("nothing", [()] * 20)
    worker = bench.ready(app="large:app", cwd=tmp_path, preload=True, children=4, memory="400Mi")
    assert {bench.result(one) for one in sent} == {ord("k")}
    eventually(lambda: worker.status()["memory"]["usage"] is not None)
    assert reasons(worker) == []


def test_the_pods_budget_stops_the_biggest_tree(bench: Any) -> None:
    huge = bench.send("hog", str(bench.journal), 400)
    small = bench.send("work", str(bench.journal), 2.0)
    worker = bench.ready(memory="250Mi")
    state = bench.end_of(huge, timeout=30)
    assert (state.state, state.reason) == ("failed", "MemoryExceeded")
    bench.result(small)
    assert bench.state(small).attempt == 1
    assert set(reasons(worker)) == {"PodBudget"}


def test_a_ceiling_under_the_baseline_is_an_error_at_start(bench: Any) -> None:
    bench.send("add", 1, 1)
    worker = bench.start(max_rss="5Mi")
    assert worker.wait(20) == 5
    [line] = worker.raw().splitlines()
    assert line.startswith("millgate: error: --max-rss: a child of this app has ")
    assert "the ceiling is 5Mi" in line
    assert bench.broker.stats().topics["default"].waiting == 1


@pytest.mark.parametrize("preload", [False, True])
def test_a_hard_ceiling_that_a_child_is_over_before_it_is_ready_is_an_error_at_start(
    bench: Any, preload: bool
) -> None:
    worker = bench.start(hard_max_rss="5Mi", **({"preload": True} if preload else {}))
    assert worker.wait(20) == 5
    [line] = worker.raw().splitlines()
    assert line.startswith("millgate: error: --hard-max-rss: a child of this app has ")
    assert "5Mi" in line
    assert len(worker.events("child started")) <= 2


@pytest.mark.parametrize(("memory", "children"), [("80Mi", 8), ("20Mi", 1)])
def test_a_pod_too_small_for_its_children_is_an_error_at_start(
    bench: Any, memory: str, children: int
) -> None:
    worker = bench.start(memory=memory, children=children)
    assert worker.wait(20) == 5
    assert "--memory:" in worker.raw()


def test_children_are_replaced_after_their_tasks_without_a_gap(bench: Any) -> None:
    ids = bench.send_many("who", [()] * 40)
    worker = bench.start(max_tasks=5, burst=True)
    assert worker.wait(60) == 0
    pids = [bench.result(sent) for sent in ids]
    assert max(pids.count(pid) for pid in pids) == 5
    assert {state.attempt for state in bench.broker.states(ids)} == {1}
    assert "MaxTasks" in reasons(worker)


@pytest.mark.parametrize("preload", [False, True], ids=["plain", "preload"])
def test_children_go_first_when_the_kernel_must_choose(bench: Any, preload: bool) -> None:
    worker = bench.ready(**({"preload": True} if preload else {}))

    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii"))

    own = score(worker.supervisor)
    above = (250, 500, 500) if preload else (500, 500)  # the template, which nobody waits for
    scores = sorted(score(pid) for pid in worker.children)
    assert scores == [min(1000, own + more) for more in above]


def test_its_processes_are_small_before_any_task(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(BARE, encoding="utf-8")
    worker = bench.ready(app="bare:app", cwd=tmp_path, children=1)
    [child] = worker.children
    sizes = {
        name: (rss_of(pid) or 0) / 1e6
        for name, pid in (
            ("guardian", worker.guardian),
            ("supervisor", worker.supervisor),
            ("child", child),
        )
    }
    assert 5 < sizes["guardian"] < 11
    assert 5 < sizes["supervisor"] < 45
    assert 5 < sizes["child"] < 14 + (sys.version_info >= (3, 13))


def test_what_a_task_has_freed_is_given_back_by_its_child(bench: Any) -> None:
    worker = bench.ready(children=1)
    [child] = worker.children
    before = rss_of(child) or 0
    for _ in range(2):
        sent = bench.send("fragment", 4000)
        bench.result(sent)
        eventually(lambda: (rss_of(child) or 0) < before + 20 * MEGABYTE)  # 120 without a trim
    assert worker.children == [child]
