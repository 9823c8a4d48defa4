"""`millgate migrate`: create or upgrade what a broker stores, or show what that would do."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from millgate.brokers.base import Broker, Server
from millgate.cli.connection import add_broker, connected
from millgate.cli.console import Console
from millgate.cli.output import add_format, emit
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
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    with connected(args) as broker:
        pending = _pending(broker)
        if args.dry_run:
            return _show(console, args.output, broker, pending)
        broker.setup()
        server = broker.server()
        done = "brought to" if pending else "is at"
        if args.output != "table":
            _emit(
                console,
                args.output,
                server,
                {"changed": None if pending is None else bool(pending)},
            )
            return EXIT_OK
        version = "" if server.schema is None else f" {done} schema version {server.schema}"
        console.print(f"{server.kind} at {server.endpoint}{version or ' is ready'}")
    return EXIT_OK


def _pending(broker: Broker) -> str | None:
    """What setup would carry out, where the broker can say so; None: it cannot."""
    tell = getattr(broker, "pending_migration", None)
    return None if tell is None else str(tell())


def _emit(console: Console, how: str, server: Server, found: Mapping[str, Any]) -> None:
    value = {"kind": server.kind, "endpoint": server.endpoint, "schema": server.schema, **found}
    emit(console, how, value)


def _show(console: Console, how: str, broker: Broker, pending: str | None) -> int:
    if how != "table":
        _emit(console, how, broker.server(), {"pending": pending})
        return EXIT_FAILED if pending else EXIT_OK
    if pending is None:
        console.say("this broker needs no migrations; setup prepares what is missing")
        return EXIT_OK
    if not pending:
        console.say(f"{broker.server().endpoint}: nothing to do")
        return EXIT_OK
    console.print(pending)
    return EXIT_FAILED
