"""The command line of `millgate dev`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from millgate.cli.console import Console


def add(subparsers: Any) -> None:
    """Enter the command (entry point of the group millgate.commands)."""
    parser = subparsers.add_parser(
        "dev",
        help="run TaskQueue and Topic manifests on this machine",
        description="Runs the manifests of a folder without a cluster: the operator's parser, policies and autoscaler, "
        "with processes in place of pods and a local broker in place of any other. A TaskQueue's `image` plays no "
        "part; its `app` is imported with the manifest's folder on sys.path. Edited manifests are taken "
        "over while it runs. Ctrl-C drains.",
    )
    parser.add_argument(
        "-f",
        "--file",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder with the manifests, or one file (default: here)",
    )
    _add_flags(parser)
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="-- CMD …",
        help="a command in place of SCRIPT, or SCRIPT's arguments; it finds the broker in MILLGATE_BROKER",
    )
    parser.set_defaults(prepare=_prepare, run=_run)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker", metavar="URL", help="use this broker instead of a local one")
    parser.add_argument(
        "--once",
        metavar="SCRIPT",
        help="run this Python file (looked for beside the manifests first), and end when it has ended and the queues "
        "are empty; its exit code is this command's. Nothing is kept unless --data says where",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where the local broker keeps its tasks (default: a folder of your own for each folder of manifests)",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="replace the workers when a Python file in DIR is edited",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print every line that workers log"
    )


def _prepare() -> None:
    """Import what is big, while Ctrl-C just ends the process: pydantic would swallow it."""
    import_module("millgate_operator.dev.run")


def _run(args: argparse.Namespace) -> int:
    # Imported here: `millgate --help` must not pay for pydantic and YAML.
    from millgate_operator.dev.folder import open_folder
    from millgate_operator.dev.manifests import read
    from millgate_operator.dev.programs import check_broker
    from millgate_operator.dev.run import Plan, Run
    from millgate_operator.dev.screen import Screen

    console: Console = args.console
    if args.broker is not None:
        check_broker(args.broker, args.data)
    manifests = read(args.file)
    throw_away = args.once is not None or bool(args.arguments) or args.broker is not None
    folder = open_folder(args.file, args.data, throw_away, console.environ)
    plan = Plan(
        manifests=manifests,
        folder=folder,
        environ=console.environ,
        url=args.broker,
        path=args.file,
        reload=args.reload,
        script=args.once,
        arguments=tuple(args.arguments),
        verbose=args.verbose,
    )
    return Run(plan, Screen(console), console.clock).run()
