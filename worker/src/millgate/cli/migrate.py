"""`millgate migrate`: create or upgrade what a broker stores, or show what that would do."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.brokers.base import Broker
from millgate.cli.connection import add_broker, connected
from millgate.cli.console import Console
from millgate.errors import EXIT_FAILED, EXIT_OK

_EPILOG = (
    "Exit codes: 0 the store is up to date (now), 1 with --dry-run: something is pending, "
    "4 the broker refused, for instance because a newer program made the store."
)


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "migrate",
        help="create or upgrade what a broker stores",
        description="Create or upgrade what a broker stores. Forward only, safe when many do it, drops no data.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be carried out and change nothing; exit 1 when there is something",
    )
    add_broker(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    with connected(args) as broker:
        pending = _pending(broker)
        if args.dry_run:
            return _show(console, broker, pending)
        broker.setup()
        server = broker.server()
        done = "brought to" if pending else "is at"
        version = "" if server.schema is None else f" {done} schema version {server.schema}"
        console.out.write(f"{server.kind} at {server.endpoint}{version or ' is ready'}\n")
    return EXIT_OK


def _pending(broker: Broker) -> str | None:
    """What setup would carry out, where the broker can say so; None: it cannot."""
    tell = getattr(broker, "pending_migration", None)
    return None if tell is None else str(tell())


def _show(console: Console, broker: Broker, pending: str | None) -> int:
    if pending is None:
        console.say("this broker needs no migrations; setup prepares what is missing")
        return EXIT_OK
    if not pending:
        console.say(f"{broker.server().endpoint}: nothing to do")
        return EXIT_OK
    console.out.write(pending + "\n")
    return EXIT_FAILED
