"""The first process of a worker: forks the supervisor, passes signals on, reaps, and ends every tree that is left over.

It runs no user code, speaks to no broker and holds no thread, so that nothing but SIGKILL ends it; and when it is
killed, the supervisor notices at once. In a pod it is PID 1.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
from collections.abc import Callable
from typing import Final

from millgate.clock import Clock, SystemClock
from millgate.runtime.processes import become_subreaper, children_of, kill_tree, reap, sweep

_PASSED_ON: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
#: Seconds between two looks at the trees' deadlines: an eighth of the shortest lease there can be.
_LOOK: Final = 0.125
_NANO: Final = 1_000_000_000
#: Children that can be watched over.
ROWS: Final = 255


class Deadlines:
    """A page with a pid and a deadline (monotonic) for each child: whoever has not moved it on by then is frozen."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, 4096)
        self._words = memoryview(self._map).cast("Q")

    def set(self, row: int, pid: int, deadline: float) -> None:
        """Watch over `pid` until its row is cleared or moved on."""
        if row < ROWS:
            self._words[2 * row] = 0  # never a pid beside another one's deadline
            self._words[2 * row + 1] = int(deadline * _NANO)
            self._words[2 * row] = pid

    def move(self, row: int, deadline: float) -> None:
        """Put off the deadline of a row."""
        if row < ROWS:
            self._words[2 * row + 1] = int(deadline * _NANO)

    def clear(self, row: int) -> None:
        """Watch over this row no more."""
        if row < ROWS:
            self._words[2 * row] = 0

    def passed(self, now: float) -> list[tuple[int, int]]:
        """Rows and pids whose deadline has passed."""
        words, mark = self._words, int(now * _NANO)
        return [
            (row, words[2 * row])
            for row in range(ROWS)
            if words[2 * row] and words[2 * row + 1] < mark
        ]


def guard(supervise: Callable[[socket.socket, Deadlines], int], clock: Clock | None = None) -> int:
    """Fork; the fork runs `supervise(link, deadlines)` and exits with its answer, which is this call's answer too.

    `link` reads as ended when the guardian is gone. Never returns in the fork.
    """
    clock = clock or SystemClock()
    deadlines = Deadlines()
    before = frozenset(children_of(os.getpid()))  # somebody else's: not swept
    become_subreaper()
    mine, theirs = socket.socketpair()
    waited = {signal.SIGCHLD, *_PASSED_ON}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    supervisor = os.fork()
    if supervisor == 0:
        _run_supervisor(supervise, mine, theirs, deadlines, waited)
    theirs.close()
    status = _watch(supervisor, before, deadlines, clock)
    sweep(before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
    mine.close()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _run_supervisor(
    supervise: Callable[[socket.socket, Deadlines], int],
    mine: socket.socket,
    theirs: socket.socket,
    deadlines: Deadlines,
    waited: set[signal.Signals],
) -> None:
    code = 70  # what sysexits calls an internal error
    try:
        mine.close()
        os.setpgid(
            0, 0
        )  # the terminal's signals reach the guardian alone, which passes each on once
        for number in (signal.SIGINT, signal.SIGTERM):  # until the worker is there to drain
            signal.signal(number, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
        code = supervise(theirs, deadlines)
    except KeyboardInterrupt:
        code = 0  # nothing was claimed yet: this is a drain too
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 -- the last frame of this process
        import traceback

        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _flush() -> None:
    import sys

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue


def _watch(supervisor: int, before: frozenset[int], deadlines: Deadlines, clock: Clock) -> int:
    """Until the supervisor has ended; answers its status."""
    waited = {signal.SIGCHLD, *_PASSED_ON}
    mine = before | {supervisor}
    while True:
        received = signal.sigtimedwait(waited, _LOOK)
        if received is not None and received.si_signo != signal.SIGCHLD:
            os.kill(supervisor, received.si_signo)
        status = reap(supervisor, block=False)
        if status is not None:
            return status
        for row, pid in deadlines.passed(clock.monotonic()):
            kill_tree(pid)  # its supervisor is frozen: somebody else may have its work by now
            deadlines.clear(row)
        if received is not None:
            for pid in before:
                reap(pid, block=False)
            sweep(mine)
