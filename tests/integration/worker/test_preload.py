"""Children forked from a template that has imported the app once."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

from millgate.runtime.processes import children_of
from support.local import gone
from support.wait import eventually

SLOW_APP = """
import os, random, time
from millgate import App
app = App("memory://")
imported_by = os.getpid()
started = []
time.sleep(0.3)

@app.on_start
def start():
    started.append(os.getpid())

@app.task(name="facts")
def facts():
    return [os.getpid(), imported_by, started, random.random()]
"""
THREADED_APP = """
import threading
from millgate import App
app = App("memory://")
threading.Thread(target=threading.Event().wait, name="ticker", daemon=True).start()

@app.task(name="facts")
def facts():
    return 1
"""


CONNECTED_APP = """
import os, socket
from millgate import App
app = App("memory://")
database = socket.create_connection(("127.0.0.1", {port}))

@app.task(name="facts")
def facts():
    return [os.getpid(), database.getsockname()[1]]
"""
TELLING_APP = """
import socket
from millgate import App
app = App("memory://")
counter = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
counter.connect(("127.0.0.1", 8125))

@app.task(name="facts")
def facts():
    return 1
"""


def test_children_share_one_import_and_run_their_own_hooks(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_APP, encoding="utf-8")
    sent = bench.send_many("facts", [()] * 12)
    worker = bench.ready(app="slow:app", cwd=tmp_path, preload=True, max_tasks=3, children=2)
    found = [bench.result(one) for one in sent]
    pids = {pid for pid, _, _, _ in found}
    assert len(pids) >= 4
    assert len({template for _, template, _, _ in found}) == 1
    assert all(started == [pid] for pid, _, started, _ in found)
    assert len({number for _, _, _, number in found}) == 12
    assert worker.stop() == 0


def test_children_outlive_their_template_and_a_new_one_is_made(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_APP, encoding="utf-8")
    first = bench.send("facts")
    worker = bench.ready(app="slow:app", cwd=tmp_path, preload=True, max_tasks=5, children=1)
    pid, template, _, _ = bench.result(first)
    os.kill(template, signal.SIGKILL)
    eventually(lambda: gone(template))
    again = [bench.result(bench.send("facts")) for _ in range(16)]
    assert again[0][0] == pid
    assert again[-1][1] != template
    everybody = worker.tree()
    os.kill(worker.supervisor, signal.SIGKILL)
    eventually(lambda: all(gone(one) for one in everybody), timeout=2)


def test_an_app_that_starts_threads_is_not_forked(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(THREADED_APP, encoding="utf-8")
    sent = bench.send("facts")
    worker = bench.ready(app="threaded:app", cwd=tmp_path, preload=True)
    assert bench.result(sent) == 1
    [line] = worker.events("not preloaded")
    assert "ticker" in line["problem"]


def test_an_app_that_opens_connections_is_not_forked(bench: Any, tmp_path: Path) -> None:
    """Children that share a connection read each other's answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (tmp_path / "connected.py").write_text(CONNECTED_APP.format(port=port), encoding="utf-8")
        sent = bench.send_many("facts", [()] * 12)
        worker = bench.ready(
            app="connected:app", cwd=tmp_path, preload=True, children=3, max_tasks=2
        )
        found = [tuple(bench.result(one)) for one in sent]
    ends = dict(found)  # process → its end of the connection
    assert len(ends) >= 3
    assert len(set(ends.values())) == len(ends)
    [line] = worker.events("not preloaded")
    assert f"127.0.0.1:{port}" in line["problem"]


def test_an_app_that_is_merely_heard_of_is_forked(bench: Any, tmp_path: Path) -> None:
    """A socket that no answer comes to may be shared: a log's, a counter's."""
    (tmp_path / "telling.py").write_text(TELLING_APP, encoding="utf-8")
    sent = bench.send("facts")
    worker = bench.ready(app="telling:app", cwd=tmp_path, preload=True, children=1)
    assert bench.result(sent) == 1
    assert worker.events("not preloaded") == []


def test_an_app_that_cannot_be_imported_is_said_in_one_line(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module_anywhere\n", encoding="utf-8")
    worker = bench.start(app="broken:app", cwd=tmp_path, preload=True)
    assert worker.wait(20) == 3
    assert "No module named 'no_such_module_anywhere'" in worker.raw()


def test_a_crash_of_a_forked_child_is_told_with_its_signal(bench: Any) -> None:
    bench.configure()
    sent = bench.send("crash_once", str(bench.journal))
    worker = bench.ready(preload=True, children=1)
    assert bench.result(sent, timeout=30) == 2
    assert "exit code 9" in worker.events("task goes back")[0]["message"]
    assert len(children_of(worker.supervisor)) == 2  # the template and one child
