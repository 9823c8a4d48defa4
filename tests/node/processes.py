"""Which process is meant: a number alone is given again to another process, a number with its start is not."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A process of this machine: its number, and its start in clock ticks since the machine's."""

    pid: int
    started: int

    def is_alive(self) -> bool:
        """Whether it still runs; one that ended and was not collected by its parent does not."""
        found = _read(self.pid)
        return found is not None and found == (self.started, True)

    def kill(self, wait: float = 10) -> bool:
        """End it at once if it is still this process; whether it is gone within so many seconds."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + wait
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.is_alive()


def identify(pid: int) -> Identity | None:
    """The identity of a running process; None when there is none of that number."""
    found = _read(pid)
    return Identity(pid, found[0]) if found and found[1] else None


def only_child(pid: int) -> int | None:
    """The number of the one child of a process; None while it has none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def _read(pid: int) -> tuple[int, bool] | None:
    """(start, whether it runs)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces
    return int(fields[19]), fields[0] not in ("Z", "X")
