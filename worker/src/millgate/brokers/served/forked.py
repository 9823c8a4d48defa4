"""A forked copy of this process that writes down what this process goes on to change."""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from logging import getLogger
from typing import Final

from millgate.frozen import dataclass

log = getLogger("millgate.brokers")
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class Writer:
    """A copy at work. `pipe` is readable once it has ended, or will have in a moment."""

    pid: int
    pipe: int

    def running(self) -> bool:
        """Whether it is at work still."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        return not poll.poll(0)

    def end(self) -> int | None:
        """Wait for its end; the bytes that it wrote, None when it could not write them."""
        said = os.read(self.pipe, 64)
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        return int(said) if said and status == 0 else None


def fork(write: Callable[[], int]) -> Writer | None:
    """Call `write`, which answers how many bytes it wrote, in a forked copy of this process. None: the machine has no
    room for a copy now, which the log says.

    The copy sees the state as it is now, whatever this process does meanwhile, and ends with it: a copy that nobody
    waits for would go on with its memory and its load. The process must have one thread.
    """
    mine = os.getpid()
    try:
        reader, writer, pid = _copied()
    except OSError as error:
        log.warning("cannot fork to write a snapshot: %s; the journals go on", error.strerror)
        return None
    if pid:
        os.close(writer)
        return Writer(pid, reader)
    code = 1
    # Nothing of this process may live on in the copy: neither its lock, nor a client's connection.
    with suppress(BaseException):
        gc.disable()
        _end_with(mine)
        signal.set_wakeup_fd(-1)  # a signal must not write into whatever has that number next
        os.dup2(writer, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        size = write()
        os.write(3, str(size).encode())
        code = 0
    os._exit(code)


def _copied() -> tuple[int, int, int]:
    """Both ends of a pipe, and what fork answers. Raises OSError, nothing left open."""
    reader, writer = os.pipe()
    try:
        return reader, writer, os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise


def _end_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, also when that has happened already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL)):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os._exit(1)
