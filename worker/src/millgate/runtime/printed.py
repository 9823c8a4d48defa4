"""The standard streams of a child: what is printed goes out line by line, and it is known whose it is."""

from __future__ import annotations

import io
import os
import sys

from millgate import context
from millgate.hints import Any
from millgate.runtime.wire import MARK_BEGIN, MARK_END


class Output(io.FileIO):
    """A standard stream's descriptor. Programs that tasks start write past it, and so do libraries in other languages:
    what they write is taken for that of the run which is under way when it is read."""

    written = False  # since `take` was last called, to any of them
    pid = 0  # of the child; what it forks says nothing
    pipe = -1  # the output itself, wherever a task may have pointed the standard descriptors to
    said = 0  # the run that was last said to print
    ending = 0  # the run whose last words are taken

    def write(self, data: Any) -> int:
        """Write, say whose it is, and remember that it was done."""
        Output.written = True
        _say(context.run_number() or Output.ending)
        return super().write(data)


def install() -> None:
    """Let both streams notice what is printed; before the app is imported, which may keep them."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        old: Any = getattr(sys, name)
        writer = io.BufferedWriter(Output(descriptor, "w", closefd=False))
        new = io.TextIOWrapper(writer, old.encoding, old.errors, line_buffering=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def begin() -> None:
    """From here on it is said whose the output is: this process is a child, and nobody has touched its descriptors."""
    Output.pid, Output.pipe = os.getpid(), os.dup(1)


def take(run: int = 0) -> bool:
    """Hand over what `run` printed; whether anything was since the last call. A task may have closed or replaced the
    streams."""
    Output.ending = run
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 -- whatever a task has put there
            continue
    Output.ending = 0
    if not Output.written:
        return False
    Output.written = False
    _say(0)
    return True


def _say(run: int) -> None:
    """Mark what follows as the output of a run. A process that a task forked has the descriptor too, for as long as it
    likes, and perhaps something else under its number."""
    if run == Output.said or os.getpid() != Output.pid:
        return
    Output.said = run
    try:
        os.write(Output.pipe, b"%b%d%b" % (MARK_BEGIN, run, MARK_END))
    except OSError:
        return  # a task has closed it
