"""What a queue's shape does to a drain: a standing backlog, delayed tasks beside it, a limit of one.

`python -m benchmarks.shapes --broker postgres --waiting 1000000 --delayed 1000000` drains the first tasks of an
otherwise empty queue, then of one that holds that much more, by the same worker on the same server; `--limit 1` bounds
the topic. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import server
from millgate.app import App
from millgate.brokers import open_broker
from millgate.brokers.base import Broker, State
from millgate.cli import noop
from millgate.queues import TopicPolicy

_TOPIC = "bench"
_QUEUE = "millgate-shapes"
_LATER = 24 * 3600.0  # seconds until a delayed task would be due
_PATIENCE = 300.0


def drain(url: str, broker: Broker, tasks: int, children: int) -> float:
    """Tasks a second, from the first that ran to the last of the first `tasks`."""
    with tempfile.TemporaryDirectory(prefix="mg-shapes-") as name:
        folder = Path(name)
        counter = folder / "counter"
        with _worker(url, folder, counter, children):
            first: tuple[float, int] | None = None
            end = time.monotonic() + _PATIENCE
            while time.monotonic() < end:
                size, now = counter.stat().st_size if counter.exists() else 0, time.monotonic()
                if first is None and size:
                    first = (now, size)
                if first is not None and size >= tasks:
                    return (size - first[1]) / (now - first[0])
                time.sleep(0.005)
        raise SystemExit(f"only {broker.stats().topics} after {_PATIENCE:g} s")


@contextmanager
def _worker(url: str, folder: Path, counter: Path, children: int) -> Iterator[None]:
    shutil.copy(Path(noop.__file__), folder / "noop.py")
    command = [sys.executable, "-m", "millgate.cli", "worker", "--app", "noop:app", "--broker", url]
    environ = {**os.environ, noop.COUNTER: str(counter), "PYTHONPATH": str(folder)}
    worker = subprocess.Popen(
        [*command, "--queue", _QUEUE, "--children", str(children), "--log-level", "warning"],
        env=environ,
        cwd=folder,
    )
    try:
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def fill(broker: Broker, waiting: int, delayed: int) -> None:
    """Queue so many tasks that do nothing, and so many for tomorrow."""
    task = App(broker).task(name="noop", topic=_TOPIC, result_ttl=0)(_nothing)
    task.send_many(() for _ in range(waiting))
    if delayed:
        task.options(delay=_LATER).send_many(() for _ in range(delayed))


def _nothing() -> None:
    """Runs elsewhere."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    brokers = ("local", "postgres", "redis", "rabbitmq")
    parser.add_argument("--broker", choices=brokers, required=True)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--waiting", type=int, default=0, help="tasks that stay behind")
    parser.add_argument("--delayed", type=int, default=0, help="tasks that are not due")
    parser.add_argument("--limit", type=int, help="of the topic, in both drains")
    options = parser.parse_args()
    with server(options.broker) as running:
        url = running.url("millgate")
        broker = open_broker(url, queue=_QUEUE, deadline=60)
        broker.setup()
        broker.configure([TopicPolicy(_TOPIC, limit=options.limit)])
        result = {"broker": options.broker, "tasks": options.tasks, "limit": options.limit}
        fill(broker, options.tasks, 0)
        result["drain_per_s"] = round(drain(url, broker, options.tasks, options.children), 1)
        if options.waiting or options.delayed:
            broker.purge(_TOPIC, (State.WAITING, State.DELAYED))
            fill(broker, options.tasks + options.waiting, options.delayed)
            result |= {"waiting": options.waiting, "delayed": options.delayed}
            beside = drain(url, broker, options.tasks, options.children)
            result["drain_per_s_beside"] = round(beside, 1)
            result["ratio"] = round(beside / result["drain_per_s"], 3)
        broker.close()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
