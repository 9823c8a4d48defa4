"""`millgate brokerd`: serve a queue that a process must own: the local broker's, or one on RabbitMQ."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from millgate.cli.connection import add_target, broker_url, target
from millgate.errors import EXIT_OK, InvalidSettings

_RABBITMQ = ("amqp://", "amqps://")


def add(subparsers: Any) -> None:
    """Enter the command."""
    from millgate.brokers.local import arguments

    text = "Serve the local broker, or a queue on RabbitMQ, until SIGTERM."
    parser = subparsers.add_parser(
        "brokerd",
        help=text,
        description=f"{text} With --broker amqp://… it owns that queue, or waits for its turn while another does;"
        " with local://… it serves at that address, and without any at this user's own.",
    )
    add_target(parser)
    parser.add_argument(
        "--broker-file", metavar="FILE",
        help="file that holds the URL, such as a mounted Secret (variable MILLGATE_BROKER_FILE)",
    )  # fmt: skip
    parser.add_argument(
        "--metrics", metavar="ADDR",
        help="on RabbitMQ: serve /livez /readyz /metrics /status there, for example :8080",
    )  # fmt: skip
    arguments.add(parser.add_argument_group("the local broker"))
    parser.add_argument(
        "--log-format", choices=("auto", "json", "text"), default="auto",
        help="json, text, or auto: text on a terminal (default: auto)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console = args.console
    as_json = args.log_format == "json" or (args.log_format == "auto" and not console.err.isatty())
    handler = logging.StreamHandler(console.err)
    handler.setFormatter(
        Lines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    url = _url(args)
    if url.startswith(_RABBITMQ):
        _serve_rabbitmq(args)
    elif args.metrics:
        raise InvalidSettings("brokerd: --metrics is for a queue on RabbitMQ; remove it")
    else:
        _serve_local(args, url)
    return EXIT_OK


def _url(args: argparse.Namespace) -> str:
    """What to serve; empty: this user's local broker. Raises InvalidSettings for flags that exclude each other."""
    from millgate.brokers.local import arguments

    url, flag = broker_url(args) or "", args.broker or args.broker_file
    if flag and not url.startswith(("local:", *_RABBITMQ)):
        raise InvalidSettings(
            "brokerd: --broker takes amqp:// or amqps://; other servers need no brokerd"
        )
    given = arguments.used(args)
    if given and url.startswith(_RABBITMQ):
        if flag:
            raise InvalidSettings(
                f"brokerd: {given[0]} is for the local broker; a queue on RabbitMQ has no use for it"
            )
        return ""  # flags before variables
    if args.listen and url.startswith("local:"):
        if flag:
            raise InvalidSettings("brokerd: --listen and --broker both say where; give one")
        return ""
    return url if url.startswith(("local:", *_RABBITMQ)) else ""


def _serve_local(args: argparse.Namespace, url: str) -> None:
    from millgate.brokers.local import arguments
    from millgate.brokers.local.brokerd import serve

    console = args.console
    if url:
        arguments.take(args, url, console.environ)
    serve(arguments.read(args, console.environ), lambda: None, console.clock)


def _serve_rabbitmq(args: argparse.Namespace) -> None:
    from millgate.brokers import driver_of, queue_name

    with driver_of("amqp"):
        from millgate.brokers.rabbitmq.brokerd import serve
        from millgate.brokers.rabbitmq.role import Brokerd
        from millgate.brokers.rabbitmq.url import parse
    from millgate.cli.post import Post

    console = args.console
    url, queue = target(args)
    how = Brokerd(parse(url, console.environ), queue_name(queue))
    post = Post(queue)
    if args.metrics:
        post.listen(args.metrics)
    serve(how, post.take, console.clock)


class Lines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's time, level and text; an error's traceback with it."""
        import json

        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
