"""What a task that does nothing costs a worker, in CPU time and thread switches: `python -m benchmarks.cost`.

This process is the supervisor; its children are real. Counted is what the kernel says that each thread has run, from
the moment when all children are ready until nothing is left: other work on the machine does not change it much.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import server
from millgate.app import App
from millgate.brokers import open_broker
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.rss import rss_of
from millgate.runtime.worker import Worker
from millgate.settings import WorkerSettings


@dataclass(frozen=True)
class Reading:
    """One look: seconds of CPU and voluntary switches of each process, and how many tasks have ended."""

    at: float
    tasks: float
    cpu: dict[int, float]
    switches: dict[int, int]
    threads: dict[str, tuple[float, int]]  # of the supervisor, by name


def _read(worker: Worker) -> Reading:
    pids = [child.pid for child in worker.parts.pool.children.values()]
    tasks = sum(worker.parts.metrics.by_label("millgate_tasks_total", "outcome").values())
    cpu, switches = {}, {}
    for name, pid in [("self", 0), *((str(pid), pid) for pid in pids)]:
        threads = list(threads_of(name))
        cpu[pid] = sum(seconds for _, seconds, _ in threads)
        switches[pid] = sum(count for _, _, count in threads)
        if not pid:
            own = {thread: (seconds, count) for thread, seconds, count in threads}
    return Reading(time.monotonic(), tasks, cpu, switches, own)


def threads_of(process: str) -> Iterator[tuple[str, float, int]]:
    """Number, seconds of CPU and voluntary switches of each thread of a process."""
    for folder in Path(f"/proc/{process}/task").iterdir():
        status = (folder / "status").read_text()
        count = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        yield folder.name, int((folder / "schedstat").read_text().split()[0]) / 1e9, count


def measure(url: str, tasks: int, children: int) -> str:
    """One drain of a backlog, as a line of figures."""
    broker = open_broker(url, queue="cost")
    broker.setup()
    kept = App(broker)
    kept.task(name="noop", topic="cost", result_ttl=0)(lambda: None).send_many(
        () for _ in range(tasks)
    )
    given = broker if url.startswith("memory:") else None
    settings = WorkerSettings(
        broker="" if given else url,
        queue="cost",
        app="nothing:app",
        children=children,
        burst=True,
        log_level="warning",
    )
    worker = Worker(settings, Deadlines(), broker=given)
    readings: list[Reading] = []
    weights: list[float] = []
    on_ready, on_nothing_left = worker.parts.pool.on_ready, worker.parts.loop.on_nothing_left

    def ready(info: dict[str, object]) -> None:
        on_ready(info)
        if sum(child.ready_at > 0 for child in worker.parts.pool.children.values()) == children:
            readings.append(_read(worker))

    def nothing_left() -> None:
        if len(readings) == 1:
            readings.append(_read(worker))
            weights.extend(rss_of(child.pid) or 0 for child in worker.parts.pool.children.values())
        on_nothing_left()

    worker.parts.pool.on_ready, worker.parts.loop.on_nothing_left = ready, nothing_left
    worker.run()
    calls = worker.parts.metrics.value("millgate_claim_calls_total")
    return _line(readings[0], readings[1], calls, max(weights) / 1e6)


def _line(first: Reading, last: Reading, calls: float, rss: float) -> str:
    tasks = last.tasks - first.tasks
    cpu = {pid: (last.cpu[pid] - first.cpu[pid]) / tasks * 1e6 for pid in first.cpu}
    switches = {pid: (last.switches[pid] - first.switches[pid]) / tasks for pid in first.cpu}
    own, children = cpu.pop(0), sum(pid_cpu for pid, pid_cpu in cpu.items() if pid)
    threads = sorted(
        ((last.threads[name][0] - before) / tasks * 1e6, (last.threads[name][1] - count) / tasks)
        for name, (before, count) in first.threads.items()
        if name in last.threads
    )[::-1]
    parts = " ".join(f"{seconds:.1f}us/{count:.3f}sw" for seconds, count in threads[:3])
    return (
        f"{tasks:.0f} tasks {tasks / (last.at - first.at):.0f}/s"
        f" | us a task: supervisor {own:.1f} + children {children:.1f} = {own + children:.1f}"
        f" | switches a task: {switches.pop(0):.3f} + {sum(switches.values()):.3f}"
        f" | {tasks / calls:.1f} tasks a claim call | threads {parts} | child {rss:.1f} MB"
    )


def main() -> None:
    """Measure a few times and print each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost")
    parser.add_argument(
        "--broker", choices=("memory", "local", "postgres", "redis"), default="memory"
    )
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.url:
        sys.path.insert(1, str(Path(__file__).parent))
        sys.stdout.write(measure(args.url, args.tasks, args.children) + "\n")
        return
    command = [sys.executable, "-m", "benchmarks.cost", "--tasks", str(args.tasks)]
    command += ["--children", str(args.children), "--url"]
    with server(args.broker) as running:
        for number in range(args.times):  # a process each: a worker's end sweeps all below it
            subprocess.run([*command, running.url(f"cost{number}")], check=True)


if __name__ == "__main__":
    main()
