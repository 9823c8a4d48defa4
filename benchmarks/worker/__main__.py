"""`python -m benchmarks.worker`: each measurement in a process of its own, medians, one table beside what is wanted."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.progress import say
from benchmarks.worker import inside, outside, starts
from benchmarks.worker.figures import Figures, medians

HERE = Path(__file__).parents[1]
AHEAD = 16  # claims for each child beyond the one that runs, when frames carry one task


def cost(*, singly: bool) -> Figures:
    """Microseconds of CPU of supervisor and children together for a task that does nothing."""
    from benchmarks.cost import measure
    from millgate.runtime import dispatch

    if singly:
        dispatch.FRAME = 1  # type: ignore[misc]
        # More would wait too long for so slow a hand-out, and go back.
        dispatch.ahead = lambda *_: AHEAD
    line = measure("memory://", 60_000, 2)
    found = re.search(r" = ([\d.]+) \|", line)
    assert found is not None, line
    return {"cost_single_us" if singly else "cost_us": float(found[1])}


MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    "cost": partial(cost, singly=False),
    "cost-single": partial(cost, singly=True),
    **{f"sizes-{name}": partial(outside.sizes, name) for name in ("local", "postgres", "redis")},
    "alone": inside.alone,
    "plain": starts.plain,
    "forked": starts.forked,
    "gaps": inside.gaps,
    "watch": inside.watch,
    "overshoot": inside.overshoot,
    "recovery": outside.recovery,
}
#: What is printed: words, figures, what they must not exceed.
ROWS = (
    ("CPU of a no-op task, several a frame, us", ("cost_us",), (25,)),
    ("CPU of a no-op task, one a frame, us", ("cost_single_us",), (60,)),
    ("CPU of a no-op task that comes alone, us", ("alone_us",), ()),
    ("supervisor on local, MB", ("supervisor_local_mb",), (45,)),
    ("supervisor on postgres, MB", ("supervisor_postgres_mb",), (45,)),
    ("supervisor on redis, MB", ("supervisor_redis_mb",), (45,)),
    ("bare child, MB", ("child_mb",), (14,)),
    ("guardian, MB", ("guardian_mb",), (11,)),
    ("start to the first task's end, plain, ms p50 / p99", ("plain_p50_ms", "plain_p99_ms"), (120,)),
    ("start to the first task's end, forked, ms p50 / p99", ("forked_p50_ms", "forked_p99_ms"), (15,)),
    ("between two tasks of one child, ms p50 / p99", ("between_p50_ms", "between_p99_ms"), ()),
    ("between two tasks at a replacement, ms p50 / p99", ("swap_p50_ms", "swap_p99_ms"), (10,)),
    ("memory watch, 16 children of 4 processes, % of a core", ("watch_percent",), (1,)),
    ("over the hard ceiling at 1 GB/s, MB", ("overshoot_mb",), (64,)),
    ("kill -9 until the task starts elsewhere, s beyond the lease", ("recovery_s",), (2,)),
)  # fmt: skip


def measured(names: list[str], times: int) -> Figures:
    """The medians of all measurements."""
    found: Figures = {}
    for name in names:
        rounds = []
        for number in range(times):
            command = [sys.executable, "-m", "benchmarks.worker", "--measure", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rounds.append(json.loads(done.stdout.splitlines()[-1]))
            say(f"{name} {number + 1}/{times}: {rounds[-1]}")
        found |= medians(rounds)
    return found


def table(figures: Figures) -> str:
    """One line a row that was measured."""
    width = max(len(words) for words, _, _ in ROWS)
    lines = []
    for words, names, wanted in ROWS:
        if all(name in figures for name in names):
            shown = " / ".join(f"{figures[name]:.1f}" for name in names)
            bound = f"<= {wanted[0]}" if wanted else ""
            over = bool(wanted) and figures[names[-1]] > wanted[0]
            lines.append(f"{words:{width}}  {shown:>12}  {bound:7}{'  over' if over else ''}")
    return "\n".join(line.rstrip() for line in lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", action="append", choices=MEASUREMENTS, help="(repeatable)")
    parser.add_argument("--measure", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        sys.path.insert(1, str(HERE))  # where children find the apps
        print(json.dumps(MEASUREMENTS[options.measure]()), flush=True)
        return 0
    figures = measured(options.only or list(MEASUREMENTS), options.times)
    print(table(figures))
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
