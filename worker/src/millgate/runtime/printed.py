"""The standard streams of a child: what is printed goes out line by line, and it is known that something was."""

from __future__ import annotations

import io
import sys

from millgate.hints import Any


class Output(io.FileIO):
    """A standard stream's descriptor. Programs that tasks start write past it; they take longer than a moment."""

    written = False  # since `take` was last called, to any of them

    def write(self, data: Any) -> int:
        """Write, and remember that it was done."""
        Output.written = True
        return super().write(data)


def install() -> None:
    """Let both streams notice what is printed; before the app is imported, which may keep them."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        old: Any = getattr(sys, name)
        writer = io.BufferedWriter(Output(descriptor, "w", closefd=False))
        new = io.TextIOWrapper(writer, old.encoding, old.errors, line_buffering=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def take() -> bool:
    """Hand over what was printed; whether anything was since the last call. A task may have closed or replaced the
    streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 -- whatever a task has put there
            continue
    if not Output.written:
        return False
    Output.written = False
    return True
