"""Processes that a task forks by hand or by multiprocessing: they are not the child, and do not speak for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millgate.errors import InvalidInput

APP = """
import multiprocessing, os, sys, time
from millgate import App, current
app = App()

@app.task(name="double")
def double(number):
    return 2 * number

def send_some(first):
    return [double.send(first + more).result(timeout=20) for more in range(10)]

@app.task(name="send_from_forks")
def send_from_forks():
    with multiprocessing.get_context("fork").Pool(4) as pool:
        asked = pool.map_async(send_some, range(0, 400, 100), chunksize=1)
        mine = send_some(1000)
        return [*asked.get(30), mine]

@app.task(name="leave", retries=0)
def leave(how):
    with current().lock("the lock", ttl=30.0):
        pid = os.fork()
        if pid == 0:
            if how == "exit":
                sys.exit(0)
            if how == "raise":
                raise ValueError("of the fork")
            return "fork"
        _, status = os.waitpid(pid, 0)
        current().progress({"status": os.waitstatus_to_exitcode(status)})
        time.sleep(0.3)
        return os.waitstatus_to_exitcode(status)

def tell_and_lock(_):
    current().progress("from a fork")
    try:
        with current().lock("another"):
            return "got it"
    except Exception as error:
        return type(error).__name__

@app.task(name="in_fork")
def in_fork():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(tell_and_lock, [1])[0]
"""


def ready(bench: Any, folder: Path, **flags: object) -> Any:
    (folder / "forks.py").write_text(APP, encoding="utf-8")
    environ = {"MILLGATE_BROKER": bench.url, "MILLGATE_QUEUE": bench.queue}
    return bench.ready(app="forks:app", cwd=folder, environ=environ, **flags)


def test_forks_of_a_task_send_and_wait_beside_each_other_and_the_task(
    bench: Any, tmp_path: Path
) -> None:
    sent = bench.send("send_from_forks")
    ready(bench, tmp_path, children=2)
    expected = [[2 * (first + more) for more in range(10)] for first in (0, 100, 200, 300, 1000)]
    assert bench.result(sent, timeout=40) == expected


@pytest.mark.parametrize(("how", "code"), [("exit", 0), ("raise", 1), ("return", 0)])
@pytest.mark.parametrize("flags", [{}, {"preload": True}], ids=["plain", "preload"])
def test_a_fork_that_comes_out_of_the_task_ends_and_the_task_goes_on(
    bench: Any, tmp_path: Path, how: str, code: int, flags: dict[str, object]
) -> None:
    sent = bench.send("leave", how)
    worker = ready(bench, tmp_path, children=1, **flags)
    assert bench.result(sent) == code
    assert bench.broker.locks() == []
    if how == "raise":
        assert "ValueError: of the fork" in worker.log_file.read_text(encoding="utf-8")


def test_a_fork_reports_progress_and_takes_no_lock(bench: Any, tmp_path: Path) -> None:
    sent = bench.send("in_fork")
    ready(bench, tmp_path, children=1)
    assert bench.result(sent) == InvalidInput.__name__
    assert bench.state(sent).progress == b'"from a fork"'
