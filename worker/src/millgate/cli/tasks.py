"""`millgate tasks`: looks at messages where they lie, in the order in which they would run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from millgate.brokers.base import Broker, Peeked, State
from millgate.cli.connection import add_broker, connected, number
from millgate.cli.output import Table, add_format, age, brief, emit, payload
from millgate.cli.topics import remark_unknown, topic_name
from millgate.errors import EXIT_OK

_STATES = (State.RUNNING, State.WAITING, State.DELAYED)


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "tasks",
        help="look at messages where they lie",
        description="Messages of topics (of all, when none is named), in the order in which they would run.",
    )
    parser.add_argument("topic", nargs="*", type=topic_name, help="default: every topic")
    parser.add_argument(
        "--state",
        action="append",
        choices=[state.value for state in _STATES],
        help="only these (repeat for several)",
    )
    parser.add_argument(
        "--limit",
        type=number,
        default=20,
        help="at most so many of a topic and state (%(default)s)",
    )
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    states = [State(name) for name in args.state] if args.state else list(_STATES)
    with connected(args) as broker:
        remark_unknown(args.console, broker, args.topic)
        topics = args.topic or sorted(broker.stats().topics)
        found = list(_peek(broker, topics, states, args.limit))
    emit(args.console, args.output, [_plain(item) for item in found], _table(found))
    return EXIT_OK


def _peek(
    broker: Broker, topics: Sequence[str], states: Sequence[State], limit: int
) -> Iterator[Peeked]:
    for topic in topics:
        for state in states:
            yield from broker.peek(topic, state, limit)


def _table(found: Sequence[Peeked]) -> Table:
    rows = [
        (
            item.id,
            item.topic,
            item.state.value,
            item.message.task if item.message else "?",
            brief(item.message.body) if item.message else "?",
            str(item.attempt),
            age(item.due_in),
            item.worker or "-",
        )
        for item in found
    ]
    return Table(("ID", "TOPIC", "STATE", "TASK", "CALL", "ATTEMPT", "DUE IN", "WORKER"), rows)


def _plain(item: Peeked) -> dict[str, Any]:
    message = item.message
    return {
        "id": item.id,
        "topic": item.topic,
        "state": item.state.value,
        "task": message.task if message else None,
        "call": payload(message.body) if message else None,
        "priority": message.priority if message else None,
        "key": message.key if message else None,
        "attempt": item.attempt,
        "dueIn": item.due_in,
        "worker": item.worker or None,
    }
