"""The standard streams of a child: what is printed goes out line by line, and it is known whose it is."""

from __future__ import annotations

import io
import json
import os
import sys

from millgate import context
from millgate.hints import Any
from millgate.runtime.wire import MARK_BEGIN, MARK_END, MARK_NAME


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
        here = context.running()
        if here is None:
            _say(Output.ending)
        else:
            _say(context.number_of(here), here if here.over else None)
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


def _say(run: int, over: context.Context | None = None) -> None:
    """Mark what follows as the output of a run; of one that is over the supervisor knows no more than is said here. A
    process that a task forked has the descriptor too, for as long as it likes, and perhaps something else under its
    number."""
    if run == Output.said or os.getpid() != Output.pid:
        return
    Output.said = run
    named = b"" if over is None else _name(over)
    try:
        os.write(Output.pipe, b"%b%d%b%b" % (MARK_BEGIN, run, named, MARK_END))
    except OSError:
        return  # a task has closed it


def _name(run: context.Context) -> bytes:
    """All that the supervisor's log says of a run, without a control character in it."""
    words = json.dumps([run.task, run.id, run.topic, run.attempt]).encode("ascii", "replace")
    return b" " + words if len(words) < MARK_NAME else b""
