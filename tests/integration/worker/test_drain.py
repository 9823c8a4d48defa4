"""SIGTERM: nothing new is claimed, what runs may finish, what does not finish goes back uncharged, exit code 0."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime
from typing import Any

import pytest

from millgate.retry import RetryPolicy
from support.bench import every_broker, every_broker_and_memory
from support.local import gone
from support.wait import eventually


@every_broker_and_memory
def test_under_a_backlog_of_ten_thousand_nothing_new_is_claimed_after_the_signal(
    bench: Any,
) -> None:
    journal = str(bench.journal)
    ids = [
        sent
        for _ in range(10)
        for sent in bench.send_many("work", [(journal, 0.05)] * 1000, result_ttl=0)
    ]
    worker = bench.ready()
    bench.until_noted("end", 20)  # by now it has claimed ahead, for tasks as short as these
    began = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - began < 10
    starts, ends = bench.notes("start"), bench.notes("end")
    [drains] = worker.events("worker drains")
    told = datetime.fromisoformat(drains["time"]).timestamp()
    assert all(float(line[4]) < told + 0.3 for line in starts)
    assert sorted(line[1] for line in starts) == sorted(line[1] for line in ends)
    topic = bench.broker.stats().topics["default"]
    assert (topic.leased, topic.failed, topic.completed) == (0, 0, len(ends))
    assert topic.waiting == len(ids) - len(ends)
    assert bench.broker.stats().workers == ()


@every_broker
def test_a_task_that_does_not_finish_goes_back_uncharged_however_often(bench: Any) -> None:
    bench.configure(retry=RetryPolicy(attempts=1, losses=0))
    sent = bench.send("work", str(bench.journal), 60.0)
    for deploys in range(1, 4):
        worker = bench.ready(drain_timeout="1s", children=1)
        bench.until_noted("start", deploys)
        assert worker.stop() == 0
        assert bench.state(sent).state == "waiting"
        [line] = [line for line in worker.events("task goes back") if line["id"] == sent]
        assert line["charge"] == "nothing"
    assert [line[2] for line in bench.notes("start")] == ["1"] * 3  # to the task it is the first


def test_a_long_task_is_asked_to_stop_before_it_is_stopped(bench: Any) -> None:
    bench.configure()
    sent = bench.send("cooperative", str(bench.journal))
    worker = bench.ready(drain_timeout="6s", children=1)
    bench.until_noted("start")
    assert worker.stop() == 0
    assert len(bench.notes("asked")) == 1
    assert bench.state(sent).state == "waiting"
    [line] = [line for line in worker.events("task goes back") if line["id"] == sent]
    assert line["charge"] == "nothing"


@every_broker_and_memory
def test_a_task_that_ignores_every_signal_is_stopped_in_time_with_what_it_started(
    bench: Any, sleepers: Any
) -> None:
    bench.configure()
    sent = bench.send("deaf", str(bench.journal), sleepers.tag)
    worker = bench.ready(drain_timeout="6s", children=1)
    bench.until_noted("start")
    eventually(lambda: len(sleepers()) == 1)
    everybody = worker.tree()
    began = time.time()
    for pid in everybody[::-1]:  # as a service manager that signals the whole group
        os.kill(pid, signal.SIGTERM)
    assert worker.wait(10) == 0
    assert time.time() - began < 6.5
    assert sleepers() == []
    assert all(gone(pid) for pid in everybody)
    assert bench.state(sent).state == "waiting"
    [line] = [line for line in worker.events("task goes back") if line["id"] == sent]
    assert line["charge"] == "nothing"


def test_a_signal_to_every_process_is_one_signal_and_what_runs_may_finish(bench: Any) -> None:
    sent = bench.send("work", str(bench.journal), 3.0)
    worker = bench.ready(drain_timeout="10m", children=1)
    bench.until_noted("start")
    for pid in worker.tree():
        os.kill(pid, signal.SIGTERM)
    assert worker.wait(15) == 0
    assert bench.state(sent).state == "succeeded"
    assert len(bench.notes("start")) == 1


@pytest.mark.parametrize(
    ("task", "reason", "charge"),
    [("swell_when_told", "HardMaxRSS", "failure"), ("crash_when_told", "Exited", "loss")],
)
def test_a_task_that_goes_wrong_during_a_drain_is_charged_as_ever(
    bench: Any, task: str, reason: str, charge: str
) -> None:
    bench.configure()
    go_on = bench.folder / "go on"
    sent = bench.send(task, str(bench.journal), str(go_on))
    worker = bench.ready(drain_timeout="1m", children=1, hard_max_rss="200Mi")
    bench.until_noted("start")
    worker.signal(signal.SIGTERM)
    eventually(lambda: worker.events("worker drains"))
    go_on.touch()
    assert worker.wait(20) == 0
    [line] = [line for line in worker.events("task goes back") if line["id"] == sent]
    assert line["charge"] == charge
    assert [line["reason"] for line in worker.events("child ended")] == [reason]


def test_a_second_signal_hurries(bench: Any) -> None:
    bench.configure()
    sent = bench.send("work", str(bench.journal), 60.0)
    worker = bench.ready(drain_timeout="10m", children=1)
    bench.until_noted("start")
    worker.signal(signal.SIGTERM)
    eventually(lambda: worker.events("worker drains"))
    assert worker.get("/readyz") == (503, "draining\n")
    assert worker.get("/livez")[0] == 200

    def signalled() -> bool:
        worker.signal(signal.SIGTERM)
        return bool(worker.events("worker hurries"))

    eventually(signalled, every=0.1)  # at once after the first it would be the same one
    assert worker.wait(10) == 0
    assert bench.state(sent).state == "waiting"


def test_ctrl_c_in_a_terminal_is_a_signal_to_drain_and_what_runs_may_finish(bench: Any) -> None:
    sent = bench.send("spawn_sleep_quietly", str(bench.journal), 2.0)
    worker = bench.ready(drain_timeout="10m", children=1)
    bench.until_noted("start")
    os.killpg(os.getpgid(worker.guardian), signal.SIGINT)  # as a terminal does
    assert worker.wait(15) == 0
    assert bench.result(sent) == 0  # nor has the signal ended the program that the task runs
    assert worker.events("worker hurries") == []


@every_broker
def test_a_fenced_worker_finishes_and_is_not_ready_when_it_is_idle(bench: Any) -> None:
    bench.send("work", str(bench.journal), 1.5)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    bench.broker.fence("worker-0", 60.0)
    waiting = bench.send("add", 1, 1)
    assert worker.get("/readyz")[0] == 200  # it still works on something
    eventually(lambda: worker.get("/readyz") == (503, "fenced and idle\n"), timeout=10)
    assert not bench.state(waiting).state.final
    eventually(lambda: bench.broker.stats().workers[0].idle, timeout=10)
    bench.broker.unfence("worker-0")
    assert bench.result(waiting, timeout=15) == 2
    assert worker.get("/readyz")[0] == 200
