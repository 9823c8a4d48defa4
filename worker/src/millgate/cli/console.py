"""What a command may touch of the outside world: two streams, an input, the environment and a clock."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import TextIO

from millgate.cli.harmless import harmless
from millgate.clock import Clock, SystemClock
from millgate.errors import EXIT_FAILED, MillgateError
from millgate.frozen import dataclass
from millgate.settings import environment


class OutputLost(MillgateError):
    """What was found out cannot be written."""

    exit_code = EXIT_FAILED


@dataclass(frozen=True, slots=True)
class Console:
    """Handed to every command as `args.console`, so that a test can look over its shoulder."""

    # a stream that was closed before the start is None in `sys`
    out: TextIO = field(default_factory=lambda: _bold(sys.stdout))
    err: TextIO = field(default_factory=lambda: _bold(sys.stderr))
    stdin: TextIO = field(default_factory=lambda: sys.stdin or io.StringIO())
    environ: Mapping[str, str] = field(default_factory=environment)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def terminal(self) -> bool:
        """Whether a person watches the output: only then are there colours and redrawing."""
        return self.out.isatty() and self.environ.get("TERM") != "dumb"

    @property
    def colours(self) -> bool:
        """Whether to colour: a terminal, and nobody asked for none (no-color.org)."""
        return self.terminal and not self.environ.get("NO_COLOR")

    def print(self, text: str, end: str = "\n") -> None:
        """Answer on standard output, at once. Raises OutputLost, or BrokenPipeError when nobody reads any more."""
        try:
            print(text, end=end, file=self.out, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(f"standard output cannot be written: {error.strerror}") from error

    def say(self, text: str) -> None:
        """One line on standard error: for people, never for a program that reads the output.

        Where nobody can read it, it is lost: it must not become the end of what it is a remark on.
        """
        with suppress(OSError):
            print(harmless(text), file=self.err, flush=True)

    def confirm(self, question: str) -> bool:
        """Ask for a yes on the terminal."""
        print(f"{question} [y/N] ", end="", file=self.err, flush=True)
        return self.stdin.readline().strip().lower() in ("y", "yes")


def _bold(stream: TextIO | None) -> TextIO:
    """A stream that writes what its encoding lacks as an escape, in place of an error."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return _nowhere() if stream is None else stream


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 -- open as long as the process
