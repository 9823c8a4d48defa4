"""The command lines and environments of what `millgate dev` starts: broker, workers, driver."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from millgate.errors import InvalidSettings
from millgate.settings import PREFIX, WorkerSettings
from millgate_operator.spec import TaskQueue, worker_settings

_MILLGATE: Final = (sys.executable, "-m", "millgate.cli")


@dataclass(frozen=True, slots=True)
class Program:
    """What to start."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


def broker_program(folder: Path, environ: Mapping[str, str], keep: bool) -> Program:
    """A local broker that listens in `folder`, and keeps its tasks there when `keep`."""
    command = (*_MILLGATE, "brokerd", "--listen", str(socket_of(folder)), "--die-with-parent")
    journal = ("--data", str(folder), "--journal", "on") if keep else ("--journal", "off")
    return Program((*command, *journal), _clean(environ))


def socket_of(folder: Path) -> Path:
    """Where the local broker of a folder listens."""
    return folder / "broker.sock"


def check_alone(folder: Path) -> None:
    """Raise InvalidSettings when another run's broker listens in this folder: two would fight over names of workers."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(socket_of(folder)))
        except OSError:
            return  # no socket, or one that a killed broker has left
    raise InvalidSettings(
        f"another millgate dev keeps its tasks in {folder}; end that one, or give this one --data DIR of its own"
    )


def check_broker(url: str, data: Path | None = None) -> None:
    """Raise InvalidSettings for a broker that other processes cannot reach, or that keeps its tasks elsewhere."""
    if not url:  # a shell variable that is not set: not to be answered by another broker
        raise InvalidSettings("--broker is empty: give a URL, or leave it out for a local broker")
    if url.startswith("memory:"):
        raise InvalidSettings(
            "--broker: memory:// lives within one process, where no worker could reach it; "
            "leave --broker out for a local broker"
        )
    if data is not None:
        raise InvalidSettings(
            "--data is where a broker that is started here keeps its tasks; leave it out, or --broker"
        )


def local_url(folder: Path, keep: bool) -> str:
    """The URL of that broker."""
    return f"local://{socket_of(folder)}?journal={'on' if keep else 'off'}"


def worker_program(
    queue: TaskQueue, name: str, url: str, folder: Path, environ: Mapping[str, str]
) -> Program:
    """A worker of the queue: the settings that its pod would get, under this name. `image` plays no part."""
    settings: WorkerSettings = replace(
        worker_settings(queue, broker=url), name=name, log_format="json", log_level="debug"
    )
    workers = queue.spec.workers
    own = {
        variable.name: variable.value
        for variable in (workers.env if workers is not None else ())
        if variable.value is not None
    }
    variables = {**_clean(environ), **own, **settings.to_env()}
    return Program((*_MILLGATE, "worker"), _with_path(variables, folder))


def driver_program(
    command: Sequence[str], queue: TaskQueue, url: str, folder: Path, environ: Mapping[str, str]
) -> Program:
    """A driver: it finds the broker in its environment and the app beside the manifest."""
    target = {f"{PREFIX}BROKER": url, f"{PREFIX}QUEUE": queue.broker_queue}
    variables = {**_clean(environ), **target, "PYTHONUNBUFFERED": "1"}
    return Program(tuple(command), _with_path(variables, folder))


def driver_command(
    script: str | None, arguments: Sequence[str], folder: Path
) -> tuple[str, ...] | None:
    """What `--once SCRIPT` and `-- …` come to: the script with its arguments, or a command of its own, or None.

    Raises InvalidSettings for a script or a program that is not there.
    """
    if script is not None:
        for path in (folder / script, Path(script)):
            if path.is_file():
                return (sys.executable, str(path), *arguments)
        raise InvalidSettings(f"--once: no file {script}, neither in {folder} nor here")
    if arguments and shutil.which(arguments[0]) is None:
        raise InvalidSettings(f"-- {arguments[0]}: no such program, neither here nor on PATH")
    return tuple(arguments) or None


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Without variables of Millgate that the caller's shell may have: the manifest decides."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}


def _with_path(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    path = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": f"{folder}:{path}" if path else str(folder)}
