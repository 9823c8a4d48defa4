"""`millgate pause` and `millgate resume`: stop and resume claims from topics."""

from __future__ import annotations

import argparse
from typing import Any

from millgate.cli.connection import add_broker, connected
from millgate.cli.output import Table, add_format, emit
from millgate.cli.topics import remark_unknown, topic_name
from millgate.errors import EXIT_OK


def add(subparsers: Any) -> None:
    """Enter both commands."""
    for name, paused, text in (
        ("pause", True, "Stop claims from topics. What runs goes on, what is sent waits."),
        ("resume", False, "Let topics be claimed again that `millgate pause` stopped."),
    ):
        parser = subparsers.add_parser(name, help=text, description=text)
        parser.add_argument("topic", nargs="+", type=topic_name, help="a topic, by its whole name")
        add_broker(parser)
        add_format(parser)
        parser.set_defaults(run=_run, paused=paused)


def _run(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        remark_unknown(args.console, broker, args.topic)
        for topic in args.topic:
            broker.pause(topic, args.paused)
        declared = broker.configuration()
    # A topic may be paused by its manifest as well: only that one can lift it.
    value = [
        {"topic": topic, "paused": args.paused or declared.policy(topic).paused}
        for topic in args.topic
    ]
    rows = [(item["topic"], "paused" if item["paused"] else "resumed") for item in value]
    emit(args.console, args.output, value, Table(("TOPIC", "STATE"), rows))
    return EXIT_OK
