"""`millgate status`: topics and workers of a queue on one screen."""

from __future__ import annotations

import argparse
from typing import Any, Final

from millgate.brokers.base import Broker, Server
from millgate.cli.connection import add_broker, connected, positive, target
from millgate.cli.console import Console
from millgate.cli.output import Table, add_format, age, count, emit
from millgate.cli.watch import watched
from millgate.fleet import WorkerRow
from millgate.limits import format_bytes
from millgate.queues import Configuration
from millgate.stats import Stats, TopicStats

#: Seconds after which a transaction that is open on the server is worth a word.
_LONG: Final = 300.0


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "status",
        help="topics and workers on one screen",
        description="Topics with what waits, runs and died; workers with what they do.",
    )
    add_watch(parser)
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def add_watch(parser: argparse._ActionsContainer, always: float | None = None) -> None:
    """Give a command `--watch`."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=positive,
        const=2.0,
        default=always,
        metavar="TIME",
        help="refresh every TIME (2s) until Ctrl-C",
    )


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    with connected(args) as broker:
        return watched(console, args.watch, lambda: _show(console, args, broker))


def _show(console: Console, args: argparse.Namespace, broker: Broker) -> None:
    server, stats, configuration = broker.server(), broker.stats(), broker.configuration()
    value = {
        "broker": {
            "kind": server.kind,
            "endpoint": server.endpoint,
            "version": server.version,
            "oldestTransaction": server.detail.get("oldest_transaction"),
        },
        "queue": {
            "suspended": configuration.queue.suspended,
            "limit": configuration.queue.limit,
            "maxWaiting": configuration.queue.max_waiting,
        },
        "stats": stats,
    }
    if args.output == "table":
        console.print(headline(server, target(args)[1], configuration, stats))
    emit(
        console,
        args.output,
        value,
        topics_table(stats, configuration),
        workers_table(stats.workers),
    )


def headline(server: Server, queue: str, configuration: Configuration, stats: Stats) -> str:
    """One line: which broker and queue, how many workers, what is special."""
    version = f" {server.version}" if server.version else ""
    workers = f"{len(stats.workers)} worker{'' if len(stats.workers) == 1 else 's'}"
    parts = [f"{server.kind}{version} at {server.endpoint}", f"queue {queue}", workers]
    if configuration.queue.limit is not None:
        parts.append(f"at most {configuration.queue.limit} at once")
    if stats.next_due is not None:
        parts.append(f"next delayed task in {age(stats.next_due)}")
    open_for = server.detail.get("oldest_transaction") or 0.0
    if open_for >= _LONG:
        parts.append(
            f"a transaction is open for {age(open_for)}: nothing dead is cleaned up beside it"
        )
    if configuration.queue.suspended:
        parts.append("SUSPENDED: nothing is claimed")
    return " · ".join(parts) + "\n"


def topics_table(stats: Stats, configuration: Configuration) -> Table:
    """One row for each topic, by name."""
    titles = (
        "TOPIC",
        "WAITING",
        "CLAIMABLE",
        "DELAYED",
        "RUNNING",
        "LIMIT",
        "DEAD",
        "OLDEST",
        "DONE",
        "FAILED",
        "NOTE",
    )
    rows = [
        (
            name,
            count(topic.waiting),
            count(topic.claimable),
            count(topic.delayed),
            count(topic.leased),
            _limit(configuration, name),
            count(topic.dead),
            age(topic.oldest),
            count(topic.completed),
            count(topic.failed),
            _note(topic),
        )
        for name, topic in sorted(stats.topics.items())
    ]
    return Table(titles, rows)


def workers_table(workers: tuple[WorkerRow, ...]) -> Table:
    """One row for each worker, in the order given."""
    titles = ("WORKER", "STATE", "BUSY", "SLOTS", "RSS", "LONGEST", "SEEN", "TOPICS", "VERSION")
    rows = [
        (
            row.name,
            "draining" if row.beat.draining else row.state.value,
            str(row.beat.busy),
            str(row.info.slots),
            "?" if row.beat.rss is None else format_bytes(row.beat.rss),
            age(row.beat.oldest),
            f"{age(row.seen)} ago",
            row.info.topics,
            row.info.version or "-",
        )
        for row in workers
    ]
    return Table(titles, rows)


def _limit(configuration: Configuration, name: str) -> str:
    limit = configuration.policy(name).effective_limit
    return "-" if limit is None else str(limit)


def _note(topic: TopicStats) -> str:
    if topic.paused:
        return "paused"
    return "" if topic.declared else "undeclared"
