"""A supervisor in this process on a memory broker, its children real: what only the inside of a worker can tell."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.cost import threads_of
from benchmarks.worker.figures import Figures, quantile
from millgate import codec
from millgate.app import App
from millgate.brokers.memory import MemoryBroker
from millgate.limits import Ceiling
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.worker import Worker
from millgate.settings import WorkerSettings

MEGABYTE = 2**20


def _broker(task: str, calls: Sequence[tuple[Any, ...]]) -> tuple[MemoryBroker, list[str]]:
    broker = MemoryBroker()
    broker.setup()
    sent = App(broker).task(name=task)(lambda *_: None).send_many(calls)
    return broker, [handle.id for handle in sent]


def _worker(broker: MemoryBroker, **settings: Any) -> Worker:
    given = WorkerSettings(**{"app": "worker_tasks:app", "log_level": "error", **settings})
    return Worker(given, Deadlines(), broker=broker)


def alone() -> Figures:
    """Microseconds of CPU of supervisor and children for a task that does nothing and comes when nothing else is there.

    Every thread and process sleeps before it and is woken for it. The sender's thread is not counted.
    """
    broker = MemoryBroker()
    broker.setup()
    noop = App(broker).task(name="noop", topic="cost", result_ttl=0)(lambda: None)
    worker = _worker(broker, app="nothing:app", children=2)
    cost: list[float] = []

    def used() -> float:
        sender = str(threading.get_native_id())
        pids = ["self", *(str(child.pid) for child in worker.parts.pool.children.values())]
        return sum(
            seconds for pid in pids for thread, seconds, _ in threads_of(pid) if thread != sender
        )

    def feed(count: int) -> None:
        for _ in range(count):
            noop.send()
            time.sleep(0.005)

    def look() -> None:
        _until(lambda: worker.parts.pool.ready == 2)
        feed(200)
        before = used()
        feed(2000)
        time.sleep(0.1)
        cost.append((used() - before) / 2000 * 1e6)

    _beside(worker, look)
    return {"alone_us": cost[0]}


def gaps() -> Figures:
    """Milliseconds between the last task of a child and the first of its replacement, and between any other two."""
    broker, ids = _broker("stamp", [(0.002,)] * 4000)
    _worker(broker, children=1, max_tasks=200, burst=True).run()
    rows = []
    for state in broker.states(ids):
        if state.result is None:
            raise SystemExit(f"a task came to nothing: {state}")
        rows.append(codec.decode(state.result))
    rows.sort(key=lambda row: row[1])
    pairs = list(pairwise(rows))
    swaps = [1000 * (later[1] - row[2]) for row, later in pairs if row[0] != later[0]]
    others = [1000 * (later[1] - row[2]) for row, later in pairs if row[0] == later[0]]
    return {
        "swaps": float(len(swaps)),
        "swap_p50_ms": quantile(swaps, 0.5),
        "swap_p99_ms": quantile(swaps, 0.99),
        "between_p50_ms": quantile(others, 0.5),
        "between_p99_ms": quantile(others, 0.99),
    }


def watch() -> Figures:
    """Share of a core that the memory watch takes: 16 children, each with three processes of its task."""
    broker, _ = _broker("parent", [(3,)] * 16)
    ceiling = Ceiling(amount=400 * MEGABYTE)
    worker = _worker(broker, children=16, hard_max_rss=ceiling, memory=Ceiling(amount=2**33))
    share: list[float] = []

    def look() -> None:
        _until(lambda: worker.parts.pool.busy == 16)
        time.sleep(2.0)
        began, before = time.monotonic(), worker.parts.memory.cpu
        time.sleep(10.0)
        share.append((worker.parts.memory.cpu - before) / (time.monotonic() - began))

    _beside(worker, look)
    return {"watch_percent": 100 * share[0]}


def overshoot() -> Figures:
    """Megabytes that a tree has over its hard ceiling when it dies, growing at 1 GB/s; the task itself keeps count."""
    ceiling = 300 * MEGABYTE
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(4096)
        broker, [sent] = _broker("grow", [(file.name, 1000.0)])
        worker = _worker(broker, children=1, hard_max_rss=Ceiling(amount=ceiling), burst=True)
        worker.run()
        [state] = broker.states([sent])
        if state.reason != "MemoryExceeded":
            raise SystemExit(f"it did not end for its memory: {state}")
        touched = int.from_bytes(os.pread(file.fileno(), 8, 0), "little") * MEGABYTE
    return {"overshoot_mb": (worker.parts.memory._baseline + touched - ceiling) / 1e6}


def _until(check: Callable[[], bool], timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not check():
        if time.monotonic() > end:
            raise SystemExit("the worker did not come so far")
        time.sleep(0.05)


def _beside(worker: Worker, look: Callable[[], None]) -> None:
    """Run a worker, and something beside it that ends it."""

    def then_end() -> None:
        try:
            look()
        finally:
            for _ in range(2):  # the second one hurries
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.2)

    thread = threading.Thread(target=then_end)
    thread.start()
    worker.run()
    thread.join()
