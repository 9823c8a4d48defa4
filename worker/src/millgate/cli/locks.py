"""`millgate locks`: lists named locks, and releases one by force."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.cli.connection import add_broker, connected
from millgate.cli.output import Table, add_format, age, emit
from millgate.errors import EXIT_FAILED, EXIT_OK, InvalidSettings


def add(subparsers: Any) -> None:
    """Enter the command; without a verb it lists."""
    parser = subparsers.add_parser(
        "locks",
        help="list or release named locks",
        description="`millgate locks` lists; `millgate locks release NAME` takes a lock from its holder by force, who "
        "learns of it with the next renewal. Exit code 1 when it was not held.",
    )
    parser.add_argument("verb", nargs="?", choices=("list", "release"), default="list")
    parser.add_argument("name", nargs="?")
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.verb == "release":
        if args.name is None:
            raise InvalidSettings("which lock? millgate locks release NAME")
        return _release(args)
    if args.name is not None:
        raise InvalidSettings("`millgate locks list` takes no name: it lists all")
    return _list(args)


def _list(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        locks = broker.locks()
    rows = [(lock.name, lock.holder, str(lock.fence), age(lock.left)) for lock in locks]
    emit(args.console, args.output, locks, Table(("LOCK", "HOLDER", "FENCE", "LEFT"), rows))
    return EXIT_OK


def _release(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        released = broker.release(args.name)
    word = "released" if released else "was not held"
    value = {"name": args.name, "released": released}
    emit(args.console, args.output, value, Table(("LOCK", "STATE"), [(args.name, word)]))
    return EXIT_OK if released else EXIT_FAILED
