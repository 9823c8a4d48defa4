"""What the guardian is once it has forked: a program of its own that passes signals on, reaps, and ends what is left.

It imports next to nothing, not even `typing`: it is there for as long as the worker, and its memory is the pod's.
"""

from __future__ import annotations

import os
import sys
import time

from millgate.runtime.deadlines import Deadlines
from millgate.runtime.processes import kill_tree, reap, sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Collection
    from typing import Final
else:
    import _signal as signal  # without the enum around it

PASSED_ON: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
WAITED: Final = (signal.SIGCHLD, *PASSED_ON)
#: Seconds between two looks at the trees' deadlines: an eighth of the shortest lease there can be.
_LOOK: Final = 0.125
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); from millgate.runtime.sentinel import main; "
    "main(*map(int, sys.argv[2:]))"
)


def become(supervisor: int, deadlines: Deadlines, before: Collection[int]) -> None:
    """Replace this process's program by this one; its number, children, signal mask and inheritable files stay.

    Returns only where that is not possible; then `watch` does the same, with more memory.
    """
    os.set_inheritable(deadlines.descriptor, True)
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 -- as above
    numbers = (supervisor, deadlines.descriptor, *before)
    command = (sys.executable, "-I", "-S", "-c", _PROGRAM, home, *map(str, numbers))
    try:
        os.execv(sys.executable, command)  # noqa: S606 -- no shell is wanted
    except (OSError, ValueError):
        return


def main(supervisor: int, page: int, *before: int) -> None:
    """The program. Never returns: the supervisor's exit code becomes this process's."""
    os._exit(watch(supervisor, Deadlines(page), before))


def watch(supervisor: int, deadlines: Deadlines, before: Collection[int]) -> int:
    """Until the supervisor has ended; ends what it has left behind, and answers its exit code.

    `before` are children of this process that are somebody else's. The signals in `WAITED` must be blocked.
    """
    status = _until_ended(supervisor, deadlines, before)
    sweep(before)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _until_ended(supervisor: int, deadlines: Deadlines, before: Collection[int]) -> int:
    mine = {*before, supervisor}
    while True:
        received = signal.sigtimedwait(WAITED, _LOOK)
        if received is not None and received.si_signo != signal.SIGCHLD:
            os.kill(supervisor, received.si_signo)
        status = reap(supervisor)
        if status is not None:
            return status
        # the clock of millgate.clock, which is more than is needed here
        for row, pid in deadlines.passed(time.clock_gettime(time.CLOCK_BOOTTIME)):
            kill_tree(pid)  # its supervisor is frozen: somebody else may have its work by now
            deadlines.clear(row)
        if received is not None:
            for pid in before:
                reap(pid)
            sweep(mine)
