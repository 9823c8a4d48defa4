"""`millgate purge`: removes what has not started, after asking."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.brokers.base import State
from millgate.cli.connection import add_broker, connected
from millgate.cli.console import Console
from millgate.cli.output import Table, add_format, emit
from millgate.cli.topics import remark_unknown, topic_name
from millgate.errors import EXIT_FAILED, EXIT_OK, InvalidSettings

_STATES = (State.WAITING, State.DELAYED)


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "purge",
        help="remove a topic's waiting and delayed tasks",
        description="Removes tasks for good. Dead letters have a command of their own: millgate dead purge.",
    )
    parser.add_argument("topic", type=topic_name)
    parser.add_argument(
        "--state",
        action="append",
        choices=[state.value for state in _STATES],
        help="only these (repeat for several)",
    )
    add_yes(parser)
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Give a command that destroys its `--yes`."""
    parser.add_argument("--yes", action="store_true", help="do not ask")


def agreed(args: argparse.Namespace, question: str) -> bool:
    """Whether to go on: `--yes`, or a yes on the terminal. Raises InvalidSettings when nobody can be asked."""
    console: Console = args.console
    if args.yes:
        return True
    if not console.stdin.isatty():
        raise InvalidSettings("this removes tasks for good, and nobody can be asked: add --yes")
    return console.confirm(question)


def _run(args: argparse.Namespace) -> int:
    states = [State(name) for name in args.state] if args.state else list(_STATES)
    names = " and ".join(state.value for state in states)
    with connected(args) as broker:
        remark_unknown(args.console, broker, [args.topic])
        if not agreed(args, f"Remove all {names} tasks of topic {args.topic}?"):
            return EXIT_FAILED
        removed = broker.purge(args.topic, states)
    table = Table(("TOPIC", "REMOVED"), [(args.topic, str(removed))])
    emit(args.console, args.output, {"topic": args.topic, "removed": removed}, table)
    return EXIT_OK
