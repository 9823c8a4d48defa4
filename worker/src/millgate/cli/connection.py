"""From flags and variables to an open broker: the same two flags on every command that talks to one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millgate.brokers import DEFAULT_QUEUE, memory, open_broker
from millgate.brokers.base import DEADLINE, Broker
from millgate.cli.console import Console
from millgate.errors import InvalidInput, InvalidSettings
from millgate.limits import parse_duration

#: A hundred years: the system can wait for no more than 292.
_LONGEST = 36_525 * 86_400.0
#: What fits into four bytes fits everywhere.
_MOST = 2**31 - 1


def add_broker(parser: argparse.ArgumentParser) -> None:
    """Give a command `--broker`, `--queue` and `--deadline`."""
    add_target(parser)
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        type=positive,
        default=DEADLINE,
        help=f"most time for one call to the broker (default {DEADLINE:.0f}s)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Give a command `--broker` and `--queue`."""
    parser.add_argument(
        "--broker", metavar="URL", help="where the queue lives (variable MILLGATE_BROKER)"
    )
    parser.add_argument(
        "--queue",
        metavar="NAME",
        help=f"which queue there (variable MILLGATE_QUEUE, default {DEFAULT_QUEUE})",
    )


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[Broker]:
    """The broker that the flags name, closed afterwards. Raises InvalidSettings when none is named."""
    url, queue = target(args)
    if url.startswith("memory:") and not memory.there(url, queue):
        raise InvalidSettings(
            "memory:// lives within one process, and this command is one of its own; use local:// or a server"
        )
    broker = open_broker(url, queue=queue, deadline=args.deadline)
    try:
        yield broker
    finally:
        broker.close()


def target(args: argparse.Namespace) -> tuple[str, str]:
    """The broker's URL and the queue's name, from flags before variables."""
    console: Console = args.console
    url = broker_url(args)
    if args.queue == "":
        raise InvalidSettings("--queue is empty: name a queue, or leave it out")
    if not url:
        raise InvalidSettings(
            "no broker: give --broker URL or set MILLGATE_BROKER, for example local://"
        )
    return url, args.queue or console.environ.get("MILLGATE_QUEUE") or DEFAULT_QUEUE


def broker_url(args: argparse.Namespace) -> str | None:
    """The broker's URL, from flags before variables; None: nothing names one. Raises InvalidSettings."""
    environ = args.console.environ
    if args.broker == "":  # a shell variable that is not set: not to be answered by another broker
        raise InvalidSettings("--broker is empty: give a URL, or leave it out for MILLGATE_BROKER")
    flag = getattr(args, "broker_file", None)
    if args.broker and flag:
        raise InvalidSettings("--broker and --broker-file exclude each other; give one")
    if args.broker:
        return str(args.broker)
    if flag:
        return _from_file("--broker-file", flag)
    if environ.get("MILLGATE_BROKER"):
        return str(environ["MILLGATE_BROKER"])
    variable = "MILLGATE_BROKER_FILE"
    return _from_file(variable, environ[variable]) if environ.get(variable) else None


def duration(text: str) -> float:
    """An argparse type: 90s, 15m, 1h30m."""
    try:
        seconds = parse_duration(float(text) if text.replace(".", "", 1).isdigit() else text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds > _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a hundred years")
    return seconds


def number(text: str) -> int:
    """An argparse type: a count of things, 1 or more."""
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, at least 1")
    return int(text)


def positive(text: str) -> float:
    """An argparse type: a duration above 0."""
    seconds = duration(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time at all; write it like 10s or 1m")
    return seconds


def _from_file(source: str, name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidSettings(f"{source}: cannot read {name}: {said}") from error
