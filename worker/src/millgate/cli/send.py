"""`millgate send`: queue a task by its name. The app is not imported; what is sent is what was typed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from millgate.brokers.base import MAX_BATCH, Broker, TaskState
from millgate.cli.connection import add_broker, connected, duration, number, positive
from millgate.cli.console import Console
from millgate.cli.output import Table, add_format, emit
from millgate.cli.show import ended, remark_open, report, wait_all
from millgate.cli.topics import topic_name
from millgate.codec import encode_call
from millgate.errors import EXIT_OK, InvalidInput, InvalidSettings, MillgateError
from millgate.ids import new_id
from millgate.message import DEFAULT_PRIORITY, DEFAULT_TOPIC, Message, Options, Receipt
from millgate.spec import TASK_NAME


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "send",
        help="queue a task by its name",
        description="Queue a task by its name. The result is printed with --wait.",
    )
    parser.add_argument("task", type=_task_name, help="the task's registered name")
    parser.add_argument("--args", metavar="JSON", help="positional arguments: [1]")
    parser.add_argument("--kwargs", default="{}", metavar="JSON", help='named ones: {"x": 1}')
    parser.add_argument(
        "--lines",
        metavar="FILE",
        help="send one task for each line of FILE, a JSON array of arguments each; - is standard input",
    )
    parser.add_argument(
        "--topic", type=topic_name, default=DEFAULT_TOPIC, help="default: %(default)s"
    )
    _add_options(parser)
    parser.add_argument(
        "--wait",
        nargs="?",
        type=duration,
        const=3600.0,
        metavar="TIME",
        help="wait for the end (1h unless TIME is given) and print the result",
    )
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", help="an id of your own; sending it twice queues once")
    parser.add_argument("--priority", type=int, default=DEFAULT_PRIORITY, help="0 to 9, 9 first")
    parser.add_argument("--key", help="the key that limits per key count by")
    parser.add_argument("--delay", type=duration, metavar="TIME", help="not before that long")
    parser.add_argument(
        "--at", type=_moment, metavar="WHEN", help="not before: 2026-12-24T18:00:00+01:00"
    )
    parser.add_argument("--expires", type=duration, metavar="TIME", help="not after that long")
    parser.add_argument("--unique", metavar="TEXT", help="queue nothing while another has TEXT")
    parser.add_argument("--result-ttl", type=duration, metavar="TIME", help="keep the result")
    parser.add_argument(
        "--attempts",
        type=number,
        help="bound on runs that fail (1: no retry), in place of the topic's",
    )
    parser.add_argument("--timeout", type=positive, metavar="TIME", help="hard timeout of a run")


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    messages = list(_messages(args, console.clock.now()))
    receipts: list[Receipt] = []
    with connected(args) as broker:
        try:
            for start in range(0, len(messages), MAX_BATCH):
                receipts += broker.publish(messages[start : start + MAX_BATCH])
        except MillgateError:
            _partly(args, receipts, len(messages))
            raise
        if args.wait is None:
            emit(console, args.output, _plain(receipts), _table(receipts))
            return EXIT_OK
        states = _wait(console, broker, [receipt.id for receipt in receipts], args.wait)
    report(console, args.output, states)
    remark_open(console, states, args.wait)
    return ended(states)


def _partly(args: argparse.Namespace, receipts: list[Receipt], wanted: int) -> None:
    """What is queued is told before the error that ended it: otherwise it would be sent again, or taken for lost."""
    if not receipts:
        return
    emit(args.console, args.output, _plain(receipts), _table(receipts))
    args.console.say(
        f"millgate: the first {len(receipts)} of {wanted} tasks are queued, the rest was refused or not heard of"
    )


def _wait(console: Console, broker: Broker, ids: list[str], timeout: float) -> list[TaskState]:
    """As `wait_all`; who interrupts it has not seen the ids yet, and learns them."""
    try:
        return wait_all(broker, console.clock, ids, timeout)
    except KeyboardInterrupt:
        shown = " ".join(ids[:8]) + (" …" if len(ids) > 8 else "")
        console.say(f"millgate: queued all the same; to wait on: millgate show {shown} --wait")
        raise


def _messages(args: argparse.Namespace, now: float) -> Iterator[Message]:
    named = _json(args.kwargs, dict, "--kwargs", '{"name": value}')
    base = Message(
        id=new_id(now) if args.id is None else args.id,
        topic=args.topic,
        task=args.task,
        body=b"",
        priority=args.priority,
        key=args.key,
        delay=args.delay,
        at=args.at,
        expires_in=args.expires,
        unique=args.unique,
        result_ttl=args.result_ttl,
        options=Options(hard_timeout=args.timeout, attempts=args.attempts),
    )
    if args.lines is None:
        positional = _json(args.args or "[]", list, "--args", "[1, 2]")
        yield replace(base, body=encode_call(tuple(positional), named))
        return
    if args.id is not None or args.unique is not None:
        raise InvalidSettings("--lines sends many tasks: --id and --unique name a single one")
    if args.args is not None:
        raise InvalidSettings("--lines has the arguments: leave --args out")
    for at, positional in _lines(args.lines, args.console):
        body = encode_call(tuple(_json(positional, list, f"--lines: line {at}", "[1, 2]")), named)
        yield replace(base, id=new_id(now), body=body)


def _lines(name: str, console: Console) -> Iterator[tuple[int, str]]:
    """Numbers and texts of the lines that are not blank. Raises InvalidSettings for a file that cannot be read."""
    try:
        text = console.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidSettings(f"--lines: cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSettings(f"--lines: {name} is not UTF-8: {error}") from error
    # not `splitlines`: JSON may have other separators within a text
    for at, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield at, line


def _json(text: str, kind: type, name: str, example: str) -> Any:
    try:
        # what a locale other than UTF-8 could not read is here as the bytes that it was
        value = json.loads(text.encode("utf-8", "surrogateescape").decode())
    except UnicodeError as error:
        raise InvalidInput(f"{name}: not UTF-8: {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{name}: this is nested too deeply") from error
    except ValueError as error:
        raise InvalidInput(f"{name}: not JSON: {error}; write it like {example}") from error
    if not isinstance(value, kind):
        what = "array" if kind is list else "object"
        raise InvalidInput(f"{name}: a JSON {what} is needed; write it like {example}")
    return value


def _plain(receipts: list[Receipt]) -> list[dict[str, Any]]:
    return [{"id": receipt.id, "duplicate": receipt.duplicate} for receipt in receipts]


def _table(receipts: list[Receipt]) -> Table:
    rows = [(receipt.id, "duplicate" if receipt.duplicate else "queued") for receipt in receipts]
    return Table(("ID", "STATE"), rows)


def _task_name(text: str) -> str:
    if not TASK_NAME.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} names no task; write it as the app registers it, for example shop.tasks.transcode"
        )
    return text


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write it like 2026-12-24T18:00:00+01:00"
        ) from error
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; add one, such as Z or +01:00")
    return moment.timestamp()
