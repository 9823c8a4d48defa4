"""A broker's process started on its own feet by a process that needs one, and how it says that it is ready.

The started program takes `--detach`, on which it forks before anything else, and `--ready FD`, into which it writes
one JSON object: that it is ready, or what keeps it from being so.
"""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from millgate.brokers.served import answers
from millgate.clock import Clock
from millgate.errors import (
    EXIT_BROKER,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnavailable,
    MillgateError,
)
from millgate.shortage import of_files, of_processes

_PIPE: Final = 65536

_LOG_BOUND: Final = 2**20  # bytes of a log after which a new start begins it anew

log = logging.getLogger("millgate.brokers")


def log_file(path: Path) -> IO[bytes]:
    """Where a started program's output goes. Raises BrokerRefused, BrokerUnavailable."""
    try:
        long = path.exists() and path.stat().st_size > _LOG_BOUND
        return path.open("wb" if long else "ab")
    except OSError as error:
        kind = BrokerUnavailable if of_files(error) else BrokerRefused
        why = of_files(error) or error.strerror
        raise kind(f"cannot write the log {path}: {why}") from error


class Detached:
    """How to start one program."""

    def __init__(self, module: str, arguments: Sequence[str], output: IO[bytes]) -> None:
        """`python -m module --detach --ready FD arguments…`, its output going to a file."""
        self._module = module
        self._arguments = arguments
        self._output = output

    def start(self, clock: Clock, end: float, environ: Mapping[str, str] | None = None) -> None:
        """Start it: a session of its own, no terminal, and init as its parent; return once it is ready.

        Raises what it says, BrokerTimeout after `end` (monotonic seconds), BrokerUnavailable when it cannot be started
        or ended without a word.
        """
        try:
            said = self._started(clock, end, environ)
        except OSError as error:
            why = of_processes(error) or error.strerror
            raise BrokerUnavailable(f"brokerd cannot be started: {why}") from error
        if said.get("error"):
            raise answers.error(said["error"], said["text"])
        if not said:
            raise BrokerUnavailable(f"brokerd ended while it started; {self._output.name} says why")

    def _started(
        self, clock: Clock, end: float, environ: Mapping[str, str] | None
    ) -> dict[str, Any]:
        reader, writer = os.pipe()
        try:
            command = [sys.executable, "-m", self._module, "--detach", "--ready", str(writer)]
            starter = subprocess.Popen(
                [*command, *self._arguments], stdin=subprocess.DEVNULL, stdout=self._output,
                stderr=self._output, pass_fds=[writer], start_new_session=True, env=environ,
            )  # fmt: skip
            os.close(writer)
            writer = -1
            starter.wait()  # it only forks
            return _said(reader, clock, end)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)


def run(serve: Callable[[Callable[[], None]], None], ready: int) -> int:
    """In the started program: call `serve` with what says that it is ready, and say what it raises; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    told = False

    def say(**what: object) -> None:
        nonlocal told
        if not told:
            told = True
            # Whoever started it may have given up waiting; others do not.
            with suppress(BrokenPipeError), os.fdopen(ready, "w") as pipe:
                json.dump(what, pipe)

    try:
        os.chdir("/")  # it would keep a folder from being unmounted otherwise
        serve(lambda: say(ready=True))
    except MillgateError as error:
        log.error("%s", error)  # noqa: TRY400 -- an error of ours explains itself
        say(error=type(error).__name__, text=str(error))
        return EXIT_BROKER
    return 0


def _said(reader: int, clock: Clock, end: float) -> dict[str, Any]:
    """What the program says when it is ready, or why it is not; empty when it ended without a word."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    data = b""
    while True:
        left = end - clock.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise BrokerTimeout("brokerd takes too long to start; it may still come")
        part = os.read(reader, _PIPE)
        if not part:
            said: dict[str, Any] = json.loads(data) if data else {}
            return said
        data += part
