"""`millgate brokerd`: serve the local broker, on a machine or as a pod."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from millgate.errors import EXIT_OK


def add(subparsers: Any) -> None:
    """Enter the command."""
    from millgate.brokers.local import arguments

    text = "Serve the local broker until SIGTERM, keeping its queues in a journal."
    parser = subparsers.add_parser("brokerd", help=text, description=text)
    arguments.add(parser)
    parser.add_argument(
        "--log-format", choices=("auto", "json", "text"), default="auto",
        help="json, text, or auto: text on a terminal (default: auto)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from millgate.brokers.local import arguments
    from millgate.brokers.local.brokerd import serve

    console = args.console
    as_json = args.log_format == "json" or (args.log_format == "auto" and not console.err.isatty())
    handler = logging.StreamHandler(console.err)
    handler.setFormatter(
        Lines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    serve(arguments.read(args, console.environ), lambda: None, console.clock)
    return EXIT_OK


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
