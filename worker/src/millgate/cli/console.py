"""What a command may touch of the outside world: two streams, an input, the environment and a clock."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from millgate.clock import Clock, SystemClock
from millgate.settings import environment


@dataclass(frozen=True, slots=True)
class Console:
    """Handed to every command as `args.console`, so that a test can look over its shoulder."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    stdin: TextIO = field(default_factory=lambda: sys.stdin)
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

    def say(self, text: str) -> None:
        """One line on standard error: for people, never for a program that reads the output."""
        print(text, file=self.err, flush=True)

    def confirm(self, question: str) -> bool:
        """Ask for a yes on the terminal."""
        print(f"{question} [y/N] ", end="", file=self.err, flush=True)
        return self.stdin.readline().strip().lower() in ("y", "yes")
