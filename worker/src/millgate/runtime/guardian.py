"""The first process of a worker: forks the supervisor, then becomes the small program that watches over it.

It runs no user code, speaks to no broker and holds no thread, so that nothing but SIGKILL ends it; and when it is
killed, the supervisor notices at once. In a pod it is PID 1.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable

from millgate.runtime import sentinel
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.processes import become_subreaper, children_of


def guard(supervise: Callable[[socket.socket, Deadlines], int]) -> int:
    """Fork; the fork runs `supervise(link, deadlines)` and exits with its answer, which becomes this process's too.

    `link` reads as ended when the guardian is gone. Never returns in the fork, and here only where the program of
    this process cannot be replaced.
    """
    deadlines = Deadlines()
    before = frozenset(children_of(os.getpid()))  # somebody else's: not swept
    become_subreaper()
    mine, theirs = socket.socketpair()
    signal.pthread_sigmask(signal.SIG_BLOCK, sentinel.WAITED)
    supervisor = os.fork()
    if supervisor == 0:
        _run_supervisor(supervise, mine, theirs, deadlines)
    theirs.close()
    mine.set_inheritable(True)  # it stays open for as long as this process lives
    _flush()
    sentinel.become(supervisor, deadlines, before)
    code = sentinel.watch(supervisor, deadlines, before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, sentinel.WAITED)
    mine.close()
    return code


def _run_supervisor(
    supervise: Callable[[socket.socket, Deadlines], int],
    mine: socket.socket,
    theirs: socket.socket,
    deadlines: Deadlines,
) -> None:
    code = 70  # what sysexits calls an internal error
    try:
        mine.close()
        # the terminal's signals reach the guardian alone, which passes each on once
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):  # until the worker is there to drain
            signal.signal(number, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, sentinel.WAITED)
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
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
