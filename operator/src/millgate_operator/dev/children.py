"""Starts programs, reads what they print, notices when they end, and sees to it that none outlives `millgate dev`."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from millgate_operator.dev.memory import tree_rss

_PR_SET_PDEATHSIG: Final = 1
#: Ends are looked for at least that often, because a grandchild may keep a pipe open beyond them.
_LOOK: Final = 0.2
_MAX_LINE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line that a child printed."""

    child: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A child is gone; `code` is negative for a signal. All its lines came before."""

    child: str
    code: int


Event = Line | Ended


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    partial: bytes = b""
    lines: list[str] = field(default_factory=list)


class Children:
    """Programs by name. Each has a session of its own, so that Ctrl-C reaches `millgate dev` alone, which drains them.

    Must be used from one thread: the kernel ties a child's parent-death signal to the thread that started it.
    """

    def __init__(self) -> None:
        self._children: dict[str, _Child] = {}
        self._selector = selectors.DefaultSelector()

    def __contains__(self, name: str) -> bool:
        return name in self._children

    def start(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        """Start `command`; its standard output and error come back as lines."""
        process = subprocess.Popen(
            command,
            env=dict(environ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 -- this process has one thread
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._children[name] = _Child(process)
        self._selector.register(process.stdout, selectors.EVENT_READ, name)

    def wait(self, timeout: float) -> list[Event]:
        """What happened until now, waiting at most `timeout` seconds for the first thing."""
        if not self._selector.get_map():  # nothing to listen to: only ends can come
            timeout = min(timeout, _LOOK)
        for key, _ in self._selector.select(min(timeout, _LOOK)):
            self._read(key.data)
        return [event for name in list(self._children) for event in self._events(name)]

    def rss(self, name: str) -> int | None:
        """Bytes that a child and its descendants hold now; None: unknown."""
        child = self._children.get(name)
        return None if child is None else tree_rss(child.process.pid)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a child; nothing when it has ended."""
        child = self._children.get(name)
        if child is not None and child.process.poll() is None:
            child.process.send_signal(number)

    def close(self) -> None:
        """Kill what still runs and forget all."""
        for child in self._children.values():
            if child.process.poll() is None:
                child.process.kill()
            child.process.wait()
            self._unlisten(child)
        self._children.clear()
        self._selector.close()

    def _events(self, name: str) -> list[Event]:
        child = self._children[name]
        code = child.process.poll()
        if code is not None:
            while self._read(name):
                pass
            if child.partial:
                child.lines.append(child.partial.decode(errors="replace"))
            self._unlisten(child)
            del self._children[name]
        events: list[Event] = [Line(name, text) for text in child.lines]
        child.lines.clear()
        return events if code is None else [*events, Ended(name, code)]

    def _read(self, name: str) -> bool:
        child = self._children[name]
        stream = child.process.stdout
        assert stream is not None
        if stream.closed:
            return False
        try:
            data = os.read(stream.fileno(), _MAX_LINE)
        except BlockingIOError:
            return False
        if not data:
            self._unlisten(child)
            return False
        *whole, child.partial = (child.partial + data).split(b"\n")
        child.lines += [line.decode(errors="replace").rstrip("\r") for line in whole]
        if len(child.partial) > _MAX_LINE:
            child.lines.append(child.partial.decode(errors="replace"))
            child.partial = b""
        return True

    def _unlisten(self, child: _Child) -> None:
        stream = child.process.stdout
        if stream is not None and not stream.closed:
            self._selector.unregister(stream)
            stream.close()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
