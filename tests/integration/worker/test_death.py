"""Any process of a worker may be killed at any moment: nothing is left behind, lost, or settled twice."""

from __future__ import annotations

import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from millgate.message import Options
from millgate.retry import Backoff, RetryPolicy
from support.bench import every_broker, every_broker_and_memory
from support.local import gone
from support.wait import eventually


@every_broker_and_memory
def test_a_child_that_dies_is_replaced_and_its_task_runs_again(bench: Any) -> None:
    bench.configure()
    sent = bench.send("crash_once", str(bench.journal))
    others = bench.send_many("work", [(str(bench.journal), 0.1)] * 5)
    worker = bench.ready()
    supervisor = worker.supervisor
    assert bench.result(sent, timeout=30) == 2
    assert {bench.state(other).attempt for other in others if bench.result(other)} == {1}
    assert worker.supervisor == supervisor
    [line] = [line for line in worker.events("task goes back") if line["id"] == sent]
    assert line["charge"] == "loss"
    assert "exit code 9" in line["message"]


def test_a_task_that_crashes_its_child_again_and_again_is_buried_as_lost(bench: Any) -> None:
    bench.configure(retry=RetryPolicy(losses=2, backoff=Backoff(initial=0.01, max=0.01)))
    crash, fault = bench.send("crash", 3), bench.send("segfault")
    bench.ready()
    for sent, word in ((crash, "exit code 3"), (fault, "SIGSEGV")):
        state = bench.end_of(sent, timeout=40)
        assert (state.state, state.reason) == ("failed", "Lost")
        assert bench.broker.dead_letter(sent).losses == 2  # the third one buried it
        assert word in state.failure.message


@every_broker
def test_a_task_that_kills_its_worker_again_and_again_is_buried_and_holds_up_nobody(
    bench: Any,
) -> None:
    bench.configure(lease=1.0, retry=RetryPolicy(losses=2))
    poison = bench.send("kill_the_worker", str(bench.journal))
    others = bench.send_many("work", [(str(bench.journal), 0.01)] * 10)
    deaths = 0
    while not bench.state(poison).state.final:  # whoever starts pods starts one again
        process = bench.start(children=1).process
        while process.poll() is None and not bench.state(poison).state.final:
            time.sleep(0.05)
        deaths += process.poll() is not None
    assert deaths == 3  # the third loss is one too many
    state, letter = bench.state(poison), bench.broker.dead_letter(poison)
    assert (state.state, state.reason) == ("failed", "Lost")
    assert (letter.attempt, letter.losses, letter.failures) == (3, 3, 0)
    assert [line[2] for line in bench.notes("start") if line[1] == poison] == ["1", "2", "3"]
    assert {state.state for state in bench.ends_of(others)} == {"succeeded"}
    assert sorted(line[1] for line in bench.notes("end")) == sorted(others)


def test_a_childs_orphans_end_with_it(bench: Any, sleepers: Any) -> None:
    bench.send("spawn_sleep", str(bench.journal), sleepers.tag, 60.0)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    eventually(lambda: len(sleepers()) == 2)
    [child] = worker.children
    os.kill(child, signal.SIGKILL)
    eventually(lambda: not sleepers(), timeout=2)


@pytest.mark.parametrize("end", ["timeout", "child", "supervisor", "guardian", "stop"])
def test_memory_that_a_task_has_shared_goes_with_its_processes(bench: Any, end: str) -> None:
    shared = Path("/dev/shm") / f"millgate-{secrets.token_hex(6)}"
    options = Options(hard_timeout=1.0 if end == "timeout" else None, attempts=1)
    seconds = 0.0 if end == "stop" else 60.0
    bench.send("share_memory", str(bench.journal), shared.name, seconds, options=options)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    assert shared.exists()
    if end == "stop":
        assert worker.stop() == 0
    elif end != "timeout":
        victim = worker.children[0] if end == "child" else getattr(worker, end)
        os.kill(victim, signal.SIGKILL)
    eventually(lambda: not shared.exists(), timeout=4)


@every_broker
@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_killing_supervisor_or_guardian_ends_everything_and_the_task_runs_again_once(
    bench: Any, sleepers: Any, victim: str
) -> None:
    bench.configure(lease=2.0)
    patient = Options(hard_timeout=3600.0)  # which has no part in when it runs again
    sent = bench.send("spawn_sleep", str(bench.journal), sleepers.tag, 2.0, options=patient)
    worker = bench.ready()
    bench.until_noted("start")
    eventually(lambda: len(sleepers()) == 2)
    everybody = worker.tree()
    os.kill(getattr(worker, victim), signal.SIGKILL)
    worker.wait(5)
    eventually(lambda: all(gone(pid) for pid in everybody) and not sleepers(), timeout=2)
    bench.ready()
    state = bench.end_of(sent)
    assert (state.state, state.attempt) == ("succeeded", 2)
    assert [line[2] for line in bench.notes("start")] == ["1", "2"]


@every_broker
def test_a_frozen_supervisor_writes_nothing_and_its_children_are_ended(
    bench: Any, sleepers: Any
) -> None:
    bench.configure(lease=1.0)
    sent = bench.send("spawn_sleep", str(bench.journal), sleepers.tag, 3.0)
    frozen = bench.ready(children=1)
    bench.until_noted("start")
    eventually(lambda: len(sleepers()) == 2)
    [child] = frozen.children
    os.kill(frozen.supervisor, signal.SIGSTOP)
    eventually(lambda: gone(child) and not sleepers(), timeout=3)
    second = bench.ready(children=1)
    state = eventually(lambda: (s := bench.state(sent)).worker == "worker-1" and s, timeout=10)
    os.kill(frozen.supervisor, signal.SIGCONT)
    state = bench.end_of(sent)
    assert (state.state, state.attempt) == ("succeeded", 2)
    assert len(bench.notes("start")) == 2
    assert second.events("child ended") == []
    assert bench.result(bench.send("add", 1, 2)) == 3
    frozen.until_ready()


@every_broker_and_memory
def test_nobody_is_left_after_a_plain_stop(bench: Any, sleepers: Any) -> None:
    bench.send("daemon", sleepers.tag, 0.1)
    worker = bench.ready()
    eventually(lambda: len(sleepers()) == 1)
    everybody = worker.tree()
    assert worker.stop() == 0
    assert all(gone(pid) for pid in everybody)
    assert sleepers() == []


@every_broker
def test_a_task_that_was_taken_away_is_stopped_and_reports_nothing(bench: Any) -> None:
    bench.configure(lease=2.0)
    sent = bench.send("work", str(bench.journal), 4.0)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    assert bench.broker.requeue([sent]) == [sent]
    first, second = bench.until_noted("start", 2)
    assert first[3] != second[3]  # another process
    assert [line["id"] for line in worker.events("lease was lost, the run is stopped")] == [sent]
    assert "millgate_leases_lost_total 1" in worker.get("/metrics")[1]
    assert [line["reason"] for line in worker.events("child ended")] == ["LeaseLost"]
    assert bench.end_of(sent).state == "succeeded"
    [end] = bench.notes("end")
    assert end[3] == second[3]


def test_short_tasks_that_ended_before_their_child_was_killed_do_not_run_again(bench: Any) -> None:
    bench.configure(retry=RetryPolicy(losses=5, backoff=Backoff(initial=0.01, max=0.01)))
    numbers, fatal = range(400), 350
    calls = [(str(bench.journal), number, fatal) for number in numbers]
    sent = bench.send_many("note_or_die", calls)
    bench.ready(children=1)
    attempts = [state.attempt for state in bench.ends_of(sent)]
    assert [number for number in numbers if attempts[number] != 1] == [fatal]
    ran = [line[0] for line in bench.notes()]
    assert sorted(set(ran)) == sorted(f"run-{number}" for number in numbers)
    assert len(ran) == len(numbers) + 1


def test_nonsense_on_the_link_ends_that_child_alone(bench: Any) -> None:
    bench.configure(retry=RetryPolicy(losses=0))
    sent = bench.send("scribble")
    worker = bench.ready()
    supervisor = worker.supervisor
    state = bench.end_of(sent, timeout=10)
    assert (state.state, state.reason) == ("failed", "Lost")
    assert worker.supervisor == supervisor
    assert bench.result(bench.send("add", 1, 1)) == 2


def test_replacing_and_killing_children_all_the_time_loses_nothing_and_leaks_nothing(
    bench: Any,
) -> None:
    bench.configure(retry=RetryPolicy(losses=50, backoff=Backoff(initial=0.01, max=0.01)))
    payloads = ["x" * 10, "y" * 1000, "z" * 200_000]
    sent = bench.send_many("echo", [(payloads[number % 3],) for number in range(150)])
    worker = bench.ready(children=3, max_tasks=4)
    for _ in range(12):
        time.sleep(0.4)
        victims = [
            child["pid"] for child in worker.status()["children"] if child["phase"] == "ready"
        ]
        if victims:
            os.kill(victims[0], signal.SIGKILL)
    for number, one in enumerate(sent):
        assert bench.result(one, timeout=40) == len(payloads[number % 3])
    eventually(lambda: worker.status()["claims"] == {"active": 0, "unsettled": 0})
    at_ease = {"ready", "standby"}
    eventually(lambda: {child["phase"] for child in worker.status()["children"]} <= at_ease)
    time.sleep(1.0)
    before = worker.status()["children"]
    time.sleep(1.0)
    after = worker.status()["children"]
    assert [child["phase"] for child in after].count("ready") == 3
    assert [child["pid"] for child in after] == [child["pid"] for child in before]
    at_rest = len(list(Path(f"/proc/{worker.supervisor}/fd").iterdir()))
    assert at_rest <= 20 + 7 * len(after)


def test_processes_that_tasks_leave_behind_do_not_pile_up_when_they_have_ended(bench: Any) -> None:
    sent = bench.send_many("daemon", [("0.05", 0.02)] * 120)
    worker = bench.ready()
    most = 0
    while not all(state.state.final for state in bench.broker.states(sent)):
        time.sleep(0.1)
        most = max(most, sum(map(gone, worker.tree())))
    assert most < 80  # 120 and more without a bound
    eventually(lambda: sum(map(gone, worker.tree())) <= 2 * 8, timeout=5)
    assert {state.attempt for state in bench.broker.states(sent)} == {1}
    assert "Defunct" in {line["reason"] for line in worker.events("child ended")}
