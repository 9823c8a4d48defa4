"""Starts a child process: an interpreter of its own, isolated from variables, inheriting only what it needs."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from millgate.clock import Clock
from millgate.runtime.preload import Template, Unfit, reap_forked
from millgate.runtime.processes import kill
from millgate.runtime.table import Table

_F_SETPIPE_SZ: Final = 1031
_OUTPUT_PIPE: Final = 2**20
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from millgate.runtime.frugal import put_off; put_off('inspect', 'copy');"
    " from millgate.runtime.{0} import main; main(*map(int, sys.argv[2:]))"
)


@dataclass(slots=True)
class Spawned:
    """A process that was just started, and our ends of what connects it."""

    pid: int
    pidfd: int
    link: socket.socket
    table: Table
    output: int
    reap: Callable[[], int]  # its exit status as `waitpid` says it, once it has ended
    forked: bool = False  # from a template, with which it shares pages


class Spawner:
    """Starts children. For the thread that lives longest: the kernel ends children with the thread that forked."""

    def __init__(self, slots: int, hello: bytes, clock: Clock, *, preload: bool = False) -> None:
        """`hello` is the first frame of every child; with `preload` they are forked from a template."""
        self._clock = clock
        self._slots = slots
        self._hello = hello
        self._cache, self._own_cache = _cache_folder()
        self._preload = preload
        self._template: Template | None = None
        self.on_unfit: Callable[[str], None] = lambda _why: None

    @property
    def helpers(self) -> set[int]:
        """Processes of ours that are no children of the pool."""
        template = self._template  # other threads ask too
        return set() if template is None else {template.pid}

    def start(self) -> Spawned:
        """Start one. Raises NotYet, AppNotLoaded, TemplateEnded, and OSError when the machine has no more to give."""
        with ExitStack() as undo, ExitStack() as given:
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            given.callback(theirs.close)
            reading, writing = os.pipe2(os.O_CLOEXEC)
            undo.callback(os.close, reading)
            given.callback(os.close, writing)
            table = Table.create(self._slots)
            undo.callback(table.close)
            # Over the user's budget of pipe buffers: a smaller one works too.
            with suppress(OSError):
                fcntl.fcntl(reading, _F_SETPIPE_SZ, _OUTPUT_PIPE)
            os.set_blocking(reading, False)
            ours.setblocking(False)
            pid, reap = self._run(theirs.fileno(), table.descriptor, writing)
            undo.callback(reap)
            undo.callback(kill, pid)
            pidfd = os.pidfd_open(pid)
            spawned = Spawned(pid, pidfd, ours, table, reading, reap, forked=self._preload)
            undo.pop_all()
        return spawned

    def _run(self, link: int, table: int, output: int) -> tuple[int, Callable[[], int]]:
        if self._preload:
            try:
                pid = self._fork((link, table, output))
            except Unfit as error:
                self._end_template()
                self._preload = False
                self.on_unfit(str(error))
            else:
                return pid, lambda: reap_forked(pid)
        process = self._popen("child", (link, table), output)
        return process.pid, lambda: _status(process.wait())

    def _fork(self, descriptors: tuple[int, int, int]) -> int:
        if self._template is None:
            self._template = Template(
                lambda link: self._popen("template", (link,), 2), self._hello, self._clock
            )
        try:
            return self._template.fork(descriptors)
        except OSError:
            self._end_template()  # the next start makes a new one
            raise

    def _popen(self, module: str, numbers: tuple[int, ...], output: int) -> subprocess.Popen[bytes]:
        options = ["-I", "-c", _PROGRAM.format(module), str(Path(__file__).parents[2])]
        if self._cache is not None:
            options[1:1] = ["-X", f"pycache_prefix={self._cache}"]
        words = [*numbers, os.getpid(), self._slots]
        return subprocess.Popen(
            [sys.executable, *options, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=numbers,
            start_new_session=True,  # the terminal's signals are not for children
        )

    def _end_template(self) -> None:
        if self._template is not None:
            self._template.close()
            self._template = None

    def close(self) -> None:
        """End the template, and remove the compiled modules of this worker's children."""
        self._end_template()
        if self._own_cache and self._cache is not None:
            shutil.rmtree(self._cache, ignore_errors=True)


def _status(code: int) -> int:
    return -code if code < 0 else code << 8


def _cache_folder() -> tuple[str | None, bool]:
    """Where children keep compiled modules, and whether it is ours to remove; None: where Python itself does.

    Slim images have no compiled modules and often a read-only root; each start would compile for 100 ms. The folder
    is new and private: a known name under /tmp would let others plant code.
    """
    if sys.pycache_prefix is not None:
        return sys.pycache_prefix, False
    if Path(importlib.util.cache_from_source(os.__file__)).exists():
        return None, False
    try:
        return tempfile.mkdtemp(prefix="millgate-pycache-"), True
    except OSError:
        return None, False
