"""`millgate top`: workers, the busiest and largest first, refreshed."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.brokers.base import Broker
from millgate.cli.connection import add_broker, connected
from millgate.cli.console import Console
from millgate.cli.output import add_format, emit
from millgate.cli.status import add_watch, workers_table
from millgate.cli.watch import watched
from millgate.fleet import WorkerRow


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "top",
        help="workers, the busiest first, refreshed",
        description="Workers, the busiest and largest first, until Ctrl-C.",
    )
    how = parser.add_mutually_exclusive_group()
    add_watch(how, always=2.0)
    how.add_argument(
        "--once", dest="watch", action="store_const", const=None, help="print once and end"
    )
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    with connected(args) as broker:
        return watched(console, args.watch, lambda: _show(console, args, broker))


def _show(console: Console, args: argparse.Namespace, broker: Broker) -> None:
    workers = tuple(sorted(broker.stats().workers, key=_rank))
    emit(console, args.output, workers, workers_table(workers))


def _rank(row: WorkerRow) -> tuple[int, int, str]:
    return (-row.beat.busy, -(row.beat.rss or 0), row.name)
