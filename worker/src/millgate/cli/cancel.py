"""`millgate cancel`: removes tasks that wait and stops those that run."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.brokers.base import CancelState
from millgate.cli.connection import add_broker, connected
from millgate.cli.output import Table, add_format, emit
from millgate.errors import EXIT_FAILED, EXIT_OK

_WORDS = {
    CancelState.REMOVED: "removed",
    CancelState.SIGNALLED: "running: its worker is told to stop it",
    CancelState.FINISHED: "too late: it has ended",
    CancelState.UNKNOWN: "unknown",
}


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "cancel",
        help="remove waiting tasks, stop running ones",
        description="Exit code 1 when one of them had ended already or is unknown.",
    )
    parser.add_argument("id", nargs="+")
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        answers = list(zip(args.id, broker.cancel(args.id), strict=True))
    value = [{"id": name, "state": state.value} for name, state in answers]
    table = Table(("ID", "STATE"), [(name, _WORDS[state]) for name, state in answers])
    emit(args.console, args.output, value, table)
    done = all(state in (CancelState.REMOVED, CancelState.SIGNALLED) for _, state in answers)
    return EXIT_OK if done else EXIT_FAILED
