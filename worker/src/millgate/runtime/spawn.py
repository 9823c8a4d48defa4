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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from millgate.runtime.table import Table

_F_SETPIPE_SZ: Final = 1031
_OUTPUT_PIPE: Final = 2**20
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from millgate.runtime.frugal import put_off; put_off('inspect');"
    " from millgate.runtime.child import main; main(*map(int, sys.argv[2:]))"
)


@dataclass(slots=True)
class Spawned:
    """A process that was just started, and our ends of what connects it."""

    process: subprocess.Popen[bytes]
    pidfd: int
    link: socket.socket
    table: Table
    output: int


class Spawner:
    """Starts children. For the thread that lives longest: the kernel ends children with the thread that forked."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._cache = _cache_folder()

    def start(self) -> Spawned:
        """Start one. Raises OSError when the machine has no process or memory left for it."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        table = Table.create(self._slots)
        with suppress(OSError):  # over the user's budget of pipe buffers: a smaller one works too
            fcntl.fcntl(reading, _F_SETPIPE_SZ, _OUTPUT_PIPE)
        try:
            process = self._popen(theirs.fileno(), table.descriptor, writing)
        except OSError:
            ours.close()
            os.close(reading)
            table.close()
            raise
        finally:
            theirs.close()
            os.close(writing)
        os.set_blocking(reading, False)
        ours.setblocking(False)
        return Spawned(process, os.pidfd_open(process.pid), ours, table, reading)

    def _popen(self, link: int, table: int, output: int) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[2])
        options = ["-I", "-c", _PROGRAM, root]
        if self._cache is not None:
            options[1:1] = ["-X", f"pycache_prefix={self._cache}"]
        numbers = [link, table, os.getpid(), self._slots]
        return subprocess.Popen(
            [sys.executable, *options, *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(link, table),
            start_new_session=True,  # the terminal's signals are not for children
        )

    def close(self) -> None:
        """Remove the compiled modules of this worker's children."""
        if self._cache is not None:
            shutil.rmtree(self._cache, ignore_errors=True)


def _cache_folder() -> str | None:
    """Where children keep compiled modules; None: where Python itself does.

    Slim images have no compiled modules and often a read-only root; each start would compile for 100 ms. The folder
    is new and private: a known name under /tmp would let others plant code.
    """
    if sys.pycache_prefix is not None:
        return None
    if Path(importlib.util.cache_from_source(os.__file__)).exists():
        return None
    try:
        return tempfile.mkdtemp(prefix="millgate-pycache-")
    except OSError:
        return None
