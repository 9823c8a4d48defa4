"""`millgate schedule`: the last slot that each schedule fired in the whole fleet."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.cli.connection import add_broker, connected
from millgate.cli.console import Console
from millgate.cli.output import Table, add_format, age, emit
from millgate.clock import written
from millgate.errors import EXIT_OK


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "schedule",
        help="the last slot that each schedule fired",
        description="Schedules that have fired at least once, in the whole fleet. Which there are is in the apps.",
    )
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    with connected(args) as broker:
        slots = broker.schedules()
    now = console.clock.now()
    rows = [
        (name, written(slot), f"{age(max(now - slot, 0.0))} ago")
        for name, slot in sorted(slots.items())
    ]
    value = [{"schedule": name, "lastSlot": written(slot)} for name, slot in sorted(slots.items())]
    emit(console, args.output, value, Table(("SCHEDULE", "LAST SLOT", "THAT WAS"), rows))
    return EXIT_OK
