"""`millgate requeue`: takes running tasks from their workers and lets them wait again, uncharged."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.cli.connection import add_broker, connected
from millgate.cli.output import Table, add_format, emit
from millgate.errors import EXIT_FAILED, EXIT_OK


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "requeue",
        help="take running tasks from their workers and queue them again",
        description="What the present holders report later changes nothing. Exit code 1 when one was not running.",
    )
    parser.add_argument("id", nargs="+")
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        requeued = set(broker.requeue(args.id))
    value = [{"id": name, "requeued": name in requeued} for name in args.id]
    rows = [(name, "requeued" if name in requeued else "not running") for name in args.id]
    emit(args.console, args.output, value, Table(("ID", "STATE"), rows))
    return EXIT_OK if requeued.issuperset(args.id) else EXIT_FAILED
