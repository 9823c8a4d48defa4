"""The command line: finds the command, imports only its module, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

from millgate.cli.console import Console, OutputLost
from millgate.errors import (
    EXIT_APP,
    EXIT_BROKER,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    AppNotLoaded,
    BrokerError,
    InvalidInput,
    InvalidSettings,
    MillgateError,
)
from millgate.frozen import dataclass

#: Something happened that no error of Millgate describes: please report it.
EXIT_INTERNAL: Final = 70
#: Ended by Ctrl-C, as shells count it.
EXIT_INTERRUPTED: Final = 130
GROUP: Final = "millgate.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command lives: a module with `add(subparsers)`, and its line in the overview."""

    module: str
    help: str


COMMANDS: Final = {
    "worker": Command("worker", "run tasks"),
    "brokerd": Command("brokerd", "serve the local broker, or a queue on RabbitMQ"),
    "migrate": Command("migrate", "create or upgrade what a broker stores"),
    "send": Command("send", "queue a task by its name, without its code"),
    "show": Command("show", "what is known of tasks: state, progress, result, failure"),
    "status": Command("status", "topics and workers on one screen"),
    "top": Command("top", "workers, the busiest first, refreshed"),
    "tasks": Command("tasks", "look at messages where they lie"),
    "why": Command("why", "why a topic or a task does not run"),
    "cancel": Command("cancel", "remove waiting tasks, stop running ones"),
    "requeue": Command("requeue", "take running tasks from their workers and queue them again"),
    "pause": Command("pause", "stop claims from topics"),
    "resume": Command("pause", "let topics be claimed again"),
    "purge": Command("purge", "remove a topic's waiting and delayed tasks"),
    "dead": Command("dead", "list, show, replay or purge dead letters"),
    "locks": Command("locks", "list or release named locks"),
    "schedule": Command("schedule", "the last slot that each schedule fired"),
    "bench": Command("bench", "measure a broker and a worker on this machine"),
}


#: Commands that other distributions bring; in place of a module, what installs them.
ELSEWHERE: Final = {
    "dev": Command("millgate[dev]", "run TaskQueue and Topic manifests on this machine")
}


class Parser(argparse.ArgumentParser):
    """argparse, with complaints as one line of ours."""

    def error(self, message: str) -> NoReturn:
        raise InvalidSettings(f"{message} (see {self.prog} --help)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, but what a command does not know is its own complaint and names its own help."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def main(argv: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run one command and answer the exit code; never a traceback unless `--traceback` asks for it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    console = console or Console()
    if "--traceback" in arguments[: _position(arguments) + 1]:
        arguments.remove("--traceback")
        return _run(arguments, console)
    try:
        return _run(arguments, console)
    except MillgateError as error:
        console.say(f"millgate: error: {_one_line(error)}")
        if isinstance(error, OutputLost):
            _give_up_output()
        return exit_code(error)
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        _give_up_output()
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the last line of defence of a command line
        if _interrupted(error):
            return EXIT_INTERRUPTED
        console.say(
            f"millgate: internal error: {type(error).__name__}: {_one_line(error)}"
            " (repeat with `millgate --traceback …` to see where)"
        )
        return EXIT_INTERNAL


def exit_code(error: MillgateError) -> int:
    """The exit code that stands for an error; docs/reference/exit-codes.md explains them."""
    own = getattr(error, "exit_code", None)
    if isinstance(own, int):
        return own
    if isinstance(error, InvalidInput):
        return EXIT_USAGE
    if isinstance(error, AppNotLoaded):
        return EXIT_APP
    return EXIT_BROKER if isinstance(error, BrokerError) else EXIT_FAILED


def _run(arguments: list[str], console: Console) -> int:
    parser = Parser(
        prog="millgate",
        description="Background tasks that survive. `millgate COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error came from (before COMMAND)"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add(subparsers, _named(arguments))
    try:
        args = parser.parse_args(arguments)
    except SystemExit as ending:  # --help
        return int(ending.code or 0)
    if args.version:
        console.print(f"millgate {version()}")
        return EXIT_OK
    if args.command is None:
        parser.print_help(console.err)
        return EXIT_USAGE
    args.console = console
    if hasattr(args, "prepare"):  # imports in which a KeyboardInterrupt would be lost
        args.prepare()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as `millgate.__main__` left it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code: int = args.run(args)
    return code


def version() -> str:
    """The installed version."""
    from importlib.metadata import version as of

    return of("millgate")


def _give_up_output() -> None:
    """Let go what is still to be written, or the interpreter would try again at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: Python wraps what happens while a class is made into a RuntimeError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _add(subparsers: Any, name: str | None) -> None:
    if name in COMMANDS:
        _load(COMMANDS[name].module).add(subparsers)
        return
    others = _installed()
    if name in others:
        others[name].load()(subparsers)
        return
    if name in ELSEWHERE:
        raise InvalidSettings(f"{name} is not installed: pip install '{ELSEWHERE[name].module}'")
    if name is not None:
        raise InvalidSettings(_no_command(name, [*COMMANDS, *sorted(others)]))
    for known, command in COMMANDS.items():  # --help
        subparsers.add_parser(known, help=command.help)
    for known in sorted(others):
        text = ELSEWHERE[known].help if known in ELSEWHERE else f"from {others[known].dist.name}"
        subparsers.add_parser(known, help=text)


def _no_command(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{name!r} is no command; {hint}there are {', '.join(known)} (see millgate --help)"


def _load(module: str) -> Any:
    path = f"{__name__}.{module}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise InvalidSettings(f"{module} is not part of this version of Millgate") from error


def _installed() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _named(arguments: Sequence[str]) -> str | None:
    at = _position(arguments)
    return arguments[at] if at < len(arguments) else None


def _position(arguments: Sequence[str]) -> int:
    for at, argument in enumerate(arguments):
        if not argument.startswith("-"):
            return at
    return len(arguments)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
