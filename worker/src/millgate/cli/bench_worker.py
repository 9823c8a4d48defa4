"""Measures a worker process on a broker: what it drains, costs and weighs, and how soon an idle one begins."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from millgate.app import App
from millgate.brokers import open_broker
from millgate.brokers.base import Broker, State
from millgate.cli.console import Console
from millgate.cli.measured import Measured, latencies_ms, machine, versions
from millgate.cli.noop import COUNTER
from millgate.clock import Clock
from millgate.errors import BrokerUnavailable, InvalidSettings, MillgateError
from millgate.frozen import dataclass
from millgate.runtime.processes import children_of, tree_of
from millgate.runtime.rss import rss_of

_TOPIC: Final = "bench"
#: Seconds between two looks at the counter file: fine beside a drain of some tenths of a second.
_LOOK: Final = 0.005
#: Most tasks that are queued one by one; the rest goes in bulk.
_SINGLE: Final = 3_000
_MB: Final = 1e6


class BenchFailed(MillgateError):
    """The worker did not do what was to be measured."""

    reason = "BenchFailed"


@dataclass(frozen=True, slots=True)
class Drain:
    """One emptied backlog."""

    per_s: float
    cpu_us: float
    supervisor_mb: float | None
    child_mb: float | None


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements share."""

    console: Console
    broker: Broker
    url: str
    queue: str
    folder: Path
    children: int
    timeout: float

    @property
    def clock(self) -> Clock:
        """The machine's clock."""
        return self.console.clock

    @property
    def counter(self) -> Path:
        """The file that tasks write to."""
        return self.folder / "counter"

    def size(self) -> int:
        """Bytes that tasks have written."""
        return self.counter.stat().st_size if self.counter.exists() else 0


def measure(console: Console, url: str, queue: str, args: argparse.Namespace) -> Measured:
    """All of it. Raises InvalidSettings when the queue is in use, BenchFailed when a worker does not work."""
    broker = open_broker(url, queue=queue)
    with tempfile.TemporaryDirectory(prefix="millgate-bench-") as name:
        bench = Bench(console, broker, url, queue, Path(name), args.children, args.timeout)
        shutil.copy(Path(__file__).with_name("noop.py"), bench.folder / "noop.py")
        try:
            _prepare(broker)
            single, bulk = _enqueue(bench, args.tasks)
            drain = _drain(bench, args.tasks)
            latencies = _latencies(bench, args.samples)
            server = broker.server()
        finally:
            _clean(broker)
    return Measured(
        broker=server.kind,
        tasks=args.tasks,
        children=args.children,
        drain_per_s=round(drain.per_s, 1),
        enqueue_per_s=round(single, 1),
        bulk_enqueue_per_s=round(bulk, 1),
        latency_ms=latencies_ms(latencies),
        rss_mb={"supervisor": drain.supervisor_mb, "child": drain.child_mb},
        cpu_us_per_task=round(drain.cpu_us, 2),
        machine=machine(),
        versions=versions(server),
    )


def _prepare(broker: Broker) -> None:
    broker.setup()
    stats = broker.stats()
    if stats.workers:
        raise InvalidSettings("bench: workers are on this queue; give --queue another name")
    broker.purge(_TOPIC, (State.WAITING, State.DELAYED))  # left by a bench that was killed


def _clean(broker: Broker) -> None:
    try:
        broker.purge(_TOPIC, (State.WAITING, State.DELAYED))
        broker.purge_dead(_TOPIC)
    except BrokerUnavailable:
        return
    finally:
        broker.close()


def _enqueue(bench: Bench, tasks: int) -> tuple[float, float]:
    """Queue all; answers the rates one by one and in bulk."""
    app = App(bench.broker)
    noop = app.task(name="noop", topic=_TOPIC, result_ttl=0)(_noop)
    single = min(tasks // 2, _SINGLE)
    noop.send()  # the first one opens the connection

    def one_by_one() -> None:
        for _ in range(single - 1):
            noop.send()

    def in_bulk() -> None:
        noop.send_many(() for _ in range(tasks - single))

    return (single - 1) / _timed(bench.clock, one_by_one), (tasks - single) / _timed(
        bench.clock, in_bulk
    )


def _noop() -> None:
    """Stands for the task that the worker has: only its name travels."""


def _timed(clock: Clock, work: Callable[[], None]) -> float:
    began = clock.monotonic()
    work()
    return max(clock.monotonic() - began, 1e-9)


def _drain(bench: Bench, tasks: int) -> Drain:
    """From the first task that ran to the last; CPU of the whole tree, memory at the end."""
    with _worker(bench) as worker:
        _until(bench, worker, lambda: bench.size() > 0)
        first, began, spent = bench.size(), bench.clock.monotonic(), _cpu(worker.pid)
        _until(bench, worker, lambda: bench.size() >= tasks)
        took = bench.clock.monotonic() - began
        cost = _cpu(worker.pid) - spent
        supervisor, child = _weights(worker.pid, bench.children)
        _until(bench, worker, lambda: _settled(bench.broker))
    done = max(tasks - first, 1)
    return Drain(done / took, cost / done * 1e6, supervisor, child)


def _settled(broker: Broker) -> bool:
    topic = broker.stats().topics[_TOPIC]
    return (topic.waiting, topic.leased) == (0, 0)


def _latencies(bench: Bench, samples: int) -> list[float]:
    """Seconds from the send to the task's first line, for tasks sent to an idle worker, one after the other."""
    bench.counter.unlink(missing_ok=True)
    app = App(bench.broker)
    stamp = app.task(name="stamp", topic=_TOPIC, result_ttl=0)(_stamp)
    with _worker(bench) as worker:
        stamp.send(bench.clock.now())  # until its children are up and its code is warm
        _until(bench, worker, lambda: len(_lines(bench)) >= 1)
        for number in range(samples):
            bench.clock.sleep(0.02 + 0.04 * (number * 0.618 % 1))  # never in step with anything
            stamp.send(bench.clock.now())
        _until(bench, worker, lambda: len(_lines(bench)) > samples)
    return [float(line) for line in _lines(bench)[1:]]


def _stamp(sent: float) -> None:
    """Stands for the task that the worker has."""
    del sent


def _lines(bench: Bench) -> list[str]:
    if not bench.counter.exists():
        return []
    return bench.counter.read_text(encoding="ascii").splitlines()


# --- the worker ----------------------------------------------------------------------------------


@contextmanager
def _worker(bench: Bench) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "millgate.cli", "worker", "--app", "noop:app")
    flags = ("--children", str(bench.children), "--log-level", "warning", "--drain-timeout", "5s")
    where = {"MILLGATE_BROKER": bench.url, "MILLGATE_QUEUE": bench.queue}
    kept = {n: v for n, v in bench.console.environ.items() if not n.startswith("MILLGATE_")}
    environ = {**kept, **where, COUNTER: str(bench.counter), "PYTHONPATH": str(bench.folder)}
    with (bench.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            (*command, *flags), env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until(bench: Bench, worker: subprocess.Popen[bytes], done: Callable[[], bool]) -> None:
    end = bench.clock.monotonic() + bench.timeout
    while not done():
        if worker.poll() is not None:
            raise BenchFailed(f"the worker ended with code {worker.returncode}: {_said(bench)}")
        if bench.clock.monotonic() > end:
            raise BenchFailed(f"not done after {bench.timeout:.0f}s: {_said(bench)}")
        bench.clock.sleep(_LOOK)


def _said(bench: Bench) -> str:
    return (bench.folder / "log").read_text(errors="replace")[-600:].strip() or "it said nothing"


def _cpu(pid: int) -> float:
    """Seconds of CPU of a process and its descendants, those that have ended included."""
    total = 0
    for one in tree_of(pid):
        try:
            stat = Path(f"/proc/{one}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        total += sum(int(word) for word in stat.rpartition(")")[2].split()[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def _weights(guardian: int, children: int) -> tuple[float | None, float | None]:
    """MB of the supervisor and of the heaviest of its children; None where it cannot be told."""
    for supervisor in children_of(guardian):
        weights = [rss_of(child) for child in children_of(supervisor)]
        known = [weight for weight in weights if weight is not None]
        own = rss_of(supervisor)
        if len(known) >= children and own is not None:
            return round(own / _MB, 1), round(max(known) / _MB, 1)
    return None, None
