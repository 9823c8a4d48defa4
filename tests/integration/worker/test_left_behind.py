"""What a task does to its process, or leaves behind in it: descriptors closed, a thread, a loop that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millgate.errors import InvalidInput
from millgate.queues import TopicPolicy
from millgate.retry import RetryPolicy

APP = """
import asyncio, os, sys, threading, time
from millgate import App, current
app = App()

def note(path, *words):
    with open(path, "a") as file:
        print(*words, file=file)

@app.task(name="lock_later")
def lock_later(path):
    here = current()
    def later():
        while not os.path.exists(path + ".go"):
            time.sleep(0.01)
        try:
            here.lock("late").__enter__()
            note(path, "got", "it")
        except Exception as error:
            note(path, "got", type(error).__name__)
    threading.Thread(target=later, daemon=True).start()

@app.task(name="close", retries=0)
def close(how, path):
    note(path, "begun", os.getpid())
    if how == "exec":
        os.execv("/bin/sleep", ["sleep", "600"])
    os.closerange(3, 4096)
    if how == "go on":
        time.sleep(600)

@app.task(name="close_async", retries=0)
async def close_async(path):
    note(path, "begun", os.getpid())
    os.closerange(3, 4096)

@app.task(name="exit_beside", retries=0)
async def exit_beside(path):
    async def leave():
        note(path, "left", os.getpid())
        sys.exit(3)
    beside = asyncio.create_task(leave())
    await asyncio.sleep(0.5)
    note(path, "went", "on")

@app.task(name="cancel_all", retries=0)
async def cancel_all(path):
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(60)

@app.task(name="wait")
async def wait(path):
    note(path, "waits", os.getpid())
    await asyncio.sleep(1.5)
    return os.getpid()
"""


@pytest.fixture
def ready(bench: Any, tmp_path: Path) -> Any:
    (tmp_path / "leaves.py").write_text(APP, encoding="utf-8")
    (tmp_path / "plain.py").write_text(
        APP[: APP.index('@app.task(name="close_async"')], encoding="utf-8"
    )
    environ = {"MILLGATE_BROKER": bench.url, "MILLGATE_QUEUE": bench.queue}

    def start(app: str = "leaves:app", **flags: object) -> Any:
        flags = {"children": 1, **flags}
        return bench.ready(app=app, cwd=tmp_path, environ=environ, **flags)

    return start


def _beside_one_that_waits(bench: Any, ready: Any) -> tuple[Any, str]:
    """A worker with four slots, in one of which a coroutine waits already; and that one's id."""
    worker = ready(slots=4)
    neighbour = bench.send("wait", str(bench.journal))
    bench.until_noted("waits")
    return worker, neighbour


def test_a_thread_that_outlives_its_task_gets_no_lock_that_nobody_would_give_back(
    bench: Any, ready: Any
) -> None:
    ready()
    bench.end_of(bench.send("lock_later", str(bench.journal)))
    Path(f"{bench.journal}.go").touch()
    [[_, got]] = bench.until_noted("got")
    assert got == InvalidInput.__name__
    assert bench.broker.locks() == []


@pytest.mark.parametrize("how", ["go on", "exec"])
def test_a_task_whose_result_could_not_come_is_stopped(bench: Any, ready: Any, how: str) -> None:
    bench.broker.configure([TopicPolicy("default", retry=RetryPolicy(losses=0))])
    sent = bench.send("close", how, str(bench.journal))
    worker = ready()
    state = bench.end_of(sent)
    assert (state.reason, state.failure.error) == ("Lost", "millgate.ChildBroken")
    [ended] = worker.events("child ended")
    assert ended["reason"] == "Broken"


@pytest.mark.parametrize(
    ("task", "app", "slots"),
    [
        ("close", "leaves", 1),
        ("close", "plain", 2),
        ("close", "leaves", 2),
        ("close_async", "leaves", 2),
    ],
    ids=["alone", "threads", "a thread beside a loop", "a coroutine"],
)
def test_a_task_that_cannot_report_is_lost_at_once_and_not_at_its_timeout(
    bench: Any, ready: Any, task: str, app: str, slots: int
) -> None:
    bench.broker.configure([TopicPolicy("default", retry=RetryPolicy(losses=0))])
    args = ("return", str(bench.journal)) if task == "close" else (str(bench.journal),)
    sent = bench.send(task, *args)
    ready(app=f"{app}:app", slots=slots)
    state = bench.end_of(sent)
    assert (state.state, state.reason) == ("failed", "Lost")
    assert len(bench.notes("begun")) == 1


def test_a_coroutine_whose_loop_was_stopped_does_not_go_on_beside_the_next(
    bench: Any, ready: Any
) -> None:
    ready()
    path = str(bench.journal)
    state = bench.end_of(bench.send("exit_beside", path))
    assert (state.state, state.failure.error) == ("failed", "builtins.SystemExit")
    [[_, pid]] = bench.notes("left")
    assert bench.result(bench.send("wait", path)) == int(pid)
    assert bench.notes("went") == []


def test_what_a_coroutine_leaves_in_the_loop_ends_none_of_its_neighbours(
    bench: Any, ready: Any
) -> None:
    worker, neighbour = _beside_one_that_waits(bench, ready)
    bench.end_of(bench.send("exit_beside", str(bench.journal)))
    bench.result(neighbour)
    assert len(bench.notes("waits")) == 1
    assert worker.events("child ended") == []
    assert "SystemExit: 3" in worker.log_file.read_text(encoding="utf-8")
    assert Path(f"/proc/{bench.notes('left')[0][1]}").exists()


def test_a_coroutine_that_cancels_all_there_is_has_failed_and_ends_no_child(
    bench: Any, ready: Any
) -> None:
    worker, neighbour = _beside_one_that_waits(bench, ready)
    state = bench.end_of(bench.send("cancel_all", str(bench.journal)))
    assert (state.state, state.failure.error) == ("failed", "asyncio.exceptions.CancelledError")
    bench.result(neighbour)
    assert bench.state(neighbour).attempt == 2  # charged: it was not the worker that stopped it
    assert worker.events("child ended") == []
