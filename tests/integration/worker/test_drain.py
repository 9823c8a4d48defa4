"""SIGTERM: nothing new is claimed, what runs may finish, what does not finish goes back uncharged, exit code 0."""

from __future__ import annotations

import signal
import time
from typing import Any

from support.wait import eventually


def test_under_a_backlog_nothing_new_is_claimed_after_the_signal(bench: Any) -> None:
    ids = bench.send_many("work", [(str(bench.journal), 0.5)] * 100)
    worker = bench.ready()
    bench.until_noted("start", 2)
    began = time.time()
    assert worker.stop() == 0
    assert time.time() - began < 3
    assert all(float(line[4]) < began + 0.3 for line in bench.notes("start"))
    states = [state.state for state in bench.broker.states(ids)]
    assert states.count("running") == 0
    assert states.count("succeeded") == len(bench.notes("end")) == len(bench.notes("start"))
    assert bench.broker.stats().workers == ()


def test_a_task_that_does_not_finish_goes_back_uncharged(bench: Any) -> None:
    bench.configure()
    sent = bench.send("work", str(bench.journal), 60.0)
    worker = bench.ready(drain_timeout="3s", children=1)
    bench.until_noted("start")
    assert worker.stop() == 0
    assert bench.state(sent).state == "waiting"
    [line] = [line for line in worker.events("task goes back") if line["id"] == sent]
    assert line["charge"] == "nothing"
    second = bench.ready(children=1)
    again = bench.until_noted("start", 2)
    assert [line[2] for line in again] == ["1", "1"]  # to the task it is no second attempt
    second.end()


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


def test_a_second_signal_hurries(bench: Any) -> None:
    bench.configure()
    sent = bench.send("work", str(bench.journal), 60.0)
    worker = bench.ready(drain_timeout="10m", children=1)
    bench.until_noted("start")
    worker.signal(signal.SIGTERM)
    eventually(lambda: worker.events("worker drains"))
    assert worker.get("/readyz") == (503, "draining\n")
    assert worker.get("/livez")[0] == 200
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert bench.state(sent).state == "waiting"


def test_ctrl_c_is_a_signal_to_drain_as_well(bench: Any) -> None:
    worker = bench.ready()
    worker.signal(signal.SIGINT)
    assert worker.wait(10) == 0


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
