"""`millgate bench`: measures a broker and a worker on this machine, with tasks that do nothing."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from millgate.cli.connection import duration, target
from millgate.cli.console import Console
from millgate.cli.measured import Measured
from millgate.cli.output import Table, add_format, emit
from millgate.errors import EXIT_OK, InvalidSettings


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "bench",
        help="measure a broker and a worker on this machine",
        description="Queues tasks that do nothing, starts a worker, and measures. It works in a queue of its own, "
        "which it empties afterwards. With memory:// there is no worker process: broker and loop only.",
    )
    parser.add_argument(
        "--broker", metavar="URL", help="what to measure (variable MILLGATE_BROKER)"
    )
    parser.add_argument("--tasks", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--children", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--samples",
        type=int,
        default=300,
        help="tasks sent to an idle worker (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout", type=duration, default=300.0, help="give up after that long (default: 5m)"
    )
    parser.add_argument("--queue", help="the queue to use (default: millgate-bench)")
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    if args.tasks < 100 or args.children < 1 or args.samples < 10:
        raise InvalidSettings("bench: at least 100 tasks, 1 child and 10 samples")
    args.queue = args.queue or "millgate-bench"
    url, queue = target(args)
    measured = _measure(console, args, url, queue)
    emit(console, args.output, asdict(measured), _table(measured))
    return EXIT_OK


def _measure(console: Console, args: argparse.Namespace, url: str, queue: str) -> Measured:
    if url.startswith("memory:"):
        from millgate.cli.bench_loop import measure
    else:
        from millgate.cli.bench_worker import measure
    return measure(console, url, queue, args)


def _table(measured: Measured) -> Table:
    rss = measured.rss_mb
    rows = [
        ("broker", measured.broker),
        ("tasks", str(measured.tasks)),
        ("children", str(measured.children)),
        ("drained per second", f"{measured.drain_per_s:,.0f}"),
        ("queued one by one per second", f"{measured.enqueue_per_s:,.0f}"),
        ("queued in bulk per second", f"{measured.bulk_enqueue_per_s:,.0f}"),
        ("idle latency p50 / p99", f"{_ms(measured, 'p50')} / {_ms(measured, 'p99')} ms"),
        (
            "memory supervisor + child",
            f"{_known(rss.get('supervisor'))} + {_known(rss.get('child'))} MB",
        ),
        ("CPU per task", f"{_known(measured.cpu_us_per_task)} µs"),
        ("machine", " ".join(str(value) for value in measured.machine.values())),
        ("versions", ", ".join(f"{name} {text}" for name, text in measured.versions.items())),
    ]
    return Table(("MEASURED", "VALUE"), rows)


def _known(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f}"


def _ms(measured: Measured, name: str) -> str:
    return f"{measured.latency_ms[name]:.2f}"
