"""Real workers on real servers: what they weigh, and how soon a task of a dead one is started elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import server
from benchmarks.worker.figures import Figures
from millgate.app import App
from millgate.brokers import open_broker
from millgate.brokers.base import Broker
from millgate.queues import TopicPolicy
from millgate.runtime.processes import children_of
from millgate.runtime.rss import rss_of

LEASE = 2.0
_QUEUE = "bench"
_HERE = Path(__file__).parents[1]


@contextmanager
def _started(url: str, app: str, count: int = 1, children: int = 2) -> Iterator[list[int]]:
    """Workers' guardians."""
    command = [sys.executable, "-m", "millgate.cli", "worker", "--app", app, "--broker", url]
    flags = ["--queue", _QUEUE, "--children", str(children), "--log-level", "error"]
    processes = [
        subprocess.Popen([*command, *flags, "--name", f"w{number}"], cwd=_HERE)
        for number in range(count)
    ]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _until(check: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not check():
        if time.monotonic() > end:
            raise SystemExit("the worker did not come so far")
        time.sleep(0.01)


def _broker(url: str) -> Broker:
    broker = open_broker(url, queue=_QUEUE)
    broker.setup()
    broker.configure([TopicPolicy("default", lease=LEASE), TopicPolicy("cost")])
    return broker


def sizes(name: str) -> Figures:
    """Megabytes (10⁶ bytes) of a worker's processes on a broker, after a thousand tasks that do nothing."""
    with server(name) as running:
        url = running.url(_QUEUE)
        broker = _broker(url)
        noop = App(broker).task(name="noop", topic="cost", result_ttl=0)(lambda: None)
        noop.send_many(() for _ in range(1000))
        with _started(url, "nothing:app") as [guardian]:
            _until(lambda: broker.stats().topics["cost"].completed == 1000)
            [supervisor] = children_of(guardian)
            children = [rss_of(pid) or 0 for pid in children_of(supervisor)]
            found = {
                f"supervisor_{name}_mb": (rss_of(supervisor) or 0) / 1e6,
                "child_mb": max(children) / 1e6,
                "guardian_mb": (rss_of(guardian) or 0) / 1e6,
            }
        broker.close()
    return found


def recovery() -> Figures:
    """Seconds beyond the lease from `kill -9` of a worker until its task is started by another one."""
    with tempfile.TemporaryDirectory() as folder, server("local") as running:
        url, journal = running.url(_QUEUE), Path(folder) / "journal"
        journal.touch()
        broker = _broker(url)
        sit = App(broker).task(name="sit")(lambda *_: None)
        with _started(url, "worker_tasks:app", count=2, children=1) as guardians:
            _until(lambda: len(broker.stats().workers) == 2)
            sit.send(str(journal), 60.0)
            _until(lambda: journal.read_text().count("\n") == 1)
            holder = int(journal.read_text().split()[0])
            [dead] = [pid for pid in guardians if holder in children_of(*children_of(pid))]
            killed = time.monotonic()
            os.kill(dead, signal.SIGKILL)
            _until(lambda: journal.read_text().count("\n") == 2)
            started = float(journal.read_text().splitlines()[1].split()[1])
        broker.close()
    return {"recovery_s": started - killed - LEASE}
