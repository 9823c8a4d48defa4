"""`millgate worker`: run tasks. Every flag has its variable; the guardian is forked before anything big is loaded."""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

from millgate.cli.console import Console
from millgate.errors import EXIT_LIMITS, InvalidSettings
from millgate.settings import WorkerSettings, misspelt, variable
from millgate.shortage import OF_THREADS, of_processes

#: Setting → (metavar, help). A metavar of None: a switch.
_FLAGS: Final[dict[str, tuple[str | None, str]]] = {
    "app": ("MODULE:APP", "the app whose tasks to run, for example shop.tasks:app"),
    "broker": ("URL", "where the queue lives"),
    "broker_file": ("FILE", "file that holds the URL, read again when the connection fails"),
    "queue": ("NAME", "which queue there (default millgate)"),
    "name": ("NAME", "in the registry (default host and process number)"),
    "topics": ("LIST", "take only these topics; globs, separated by commas"),
    "exclude": ("LIST", "never take these topics"),
    "ordered": (None, "the order of --topics is a strict priority"),
    "children": ("N", "child processes (default 2)"),
    "slots": ("N", "tasks at once in each child (default 1)"),
    "max_rss": (
        "SIZE",
        "replace a child after its task when its process tree has more: 400Mi, or 40%% of the pod",
    ),
    "hard_max_rss": ("SIZE", "stop a task at once when its process tree has more"),
    "memory": ("SIZE", "what everything together may have (default: the container's limit)"),
    "max_tasks": ("N", "replace a child after so many tasks"),
    "max_lifetime": ("TIME", "replace a child after so long"),
    "drain_timeout": ("TIME", "most time between SIGTERM and the end (default 10m)"),
    "metrics": ("ADDR", "serve /livez /readyz /metrics /status there, for example :8080"),
    "preload": (None, "fork children from a template that has imported the app"),
    "log_format": ("FORMAT", "json, text, or auto (default): text on a terminal"),
    "log_level": ("LEVEL", "debug, info (default), warning or error"),
    "burst": (None, "end when nothing is left to do"),
}


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "worker",
        help="run tasks",
        description="Run tasks. Each flag can be given as a variable: --max-rss is MILLGATE_MAX_RSS.",
    )
    for name, (metavar, text) in _FLAGS.items():
        flag = "--" + name.replace("_", "-")
        named = f" [{variable(name)}]"
        if metavar is None:
            parser.add_argument(
                flag, action=argparse.BooleanOptionalAction, default=None, help=text + named
            )
        else:
            parser.add_argument(flag, metavar=metavar, default=None, help=text + named)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Start the guardian, and under it the supervisor; answers the supervisor's exit code. Raises InvalidSettings."""
    console: Console = args.console
    flags = {name: getattr(args, name) for name in _FLAGS}
    settings = WorkerSettings.from_env(console.environ, **flags)
    if not settings.app:
        raise InvalidSettings(
            "--app: name the app whose tasks to run, for example --app shop.tasks:app"
        )
    if not settings.broker and not settings.broker_file:
        raise InvalidSettings(
            "--broker: say where the queue lives, or set MILLGATE_BROKER, e.g. local://"
        )
    if settings.broker.startswith("memory:"):
        raise InvalidSettings(
            "--broker: memory:// lives within one process, where nobody could send to this worker; "
            "use local:// or a server"
        )
    for name, meant in misspelt(console.environ).items():
        console.say(f"millgate: warning: {name} is no setting and is not read; {meant} is one")
    _prepare_local(settings)
    return _start(settings, console)


def _start(settings: WorkerSettings, console: Console) -> int:
    from millgate.runtime.guardian import guard

    def supervise(link: Any, deadlines: Any) -> int:
        from millgate.cli import exit_code
        from millgate.errors import MillgateError
        from millgate.runtime.frugal import put_off_tls
        from millgate.runtime.worker import Worker

        put_off_tls(settings.broker or _first_line(settings.broker_file))
        try:
            worker = Worker(settings, deadlines, link)
        except MillgateError as error:
            console.say(f"millgate: error: {error}")
            return exit_code(error)
        except RuntimeError as error:  # for its log it needs a thread
            console.say(f"millgate: error: cannot start the worker: {error}; {OF_THREADS}")
            return EXIT_LIMITS
        return worker.run()

    try:
        return guard(supervise)
    except OSError as error:  # in the supervisor every error has its end already
        console.say(f"millgate: error: cannot start the worker: {of_processes(error) or error}")
        return EXIT_LIMITS


def _prepare_local(settings: WorkerSettings) -> None:
    """Have a local broker started by a process that is gone at once: what a worker starts itself ends with it."""
    url = settings.broker or _first_line(settings.broker_file)
    if not url.startswith("local:"):
        return
    try:
        starter = os.fork()
    except OSError:
        return  # the worker itself meets the same, and says it
    if starter == 0:
        code = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            from millgate.brokers import open_broker

            broker = open_broker(url, queue=settings.queue)
            broker.setup()
            broker.close()
        except BaseException:  # noqa: BLE001 -- the worker itself meets the same, and says it
            code = 1
        finally:
            os._exit(code)
    os.waitpid(starter, 0)


def _first_line(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as text:  # noqa: PTH123 -- the guardian stays small
            return text.readline().strip()
    except (OSError, UnicodeDecodeError):
        return ""  # the worker itself meets the same, and says it
