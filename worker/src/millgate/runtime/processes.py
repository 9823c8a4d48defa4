"""Linux process trees: who belongs to one, and how all of one is ended. All that a worker says to prctl is here.

A child is a *subreaper*: whatever a task leaves behind, double-forked and in a session of its own, stays under it, and
falls to the supervisor only when the child has died. So a stranger among one's children comes from a dead tree.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Collection
    from typing import Final
else:
    import _signal as signal  # the guardian is small: it imports this, and no enum or typing

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_ROUNDS: Final = 1000  # a process that forks for ever loses against this many rounds of SIGKILL
#: How the program of such a process begins, multiprocessing's own and those that were made after it.
_TRACKER: Final = b"resource_tracker import main"
#: Looks at one that clears up, and seconds between two of them: it is done in milliseconds.
_LOOKS: Final = 100
_LOOK: Final = 0.005
#: Seconds that one sweep waits for what it has killed: a process may be in the kernel's hands, or another user's.
_PATIENCE: Final = 0.5
_STEP: Final = 0.0005
#: Links of /proc/PID/task when there is one thread: two are the directory's own, each thread adds one.
ONE_THREAD: Final = 3


def _prctl(option: int, value: int) -> None:
    # the core of ctypes: the package around it would cost every child half a megabyte
    core = __import__("_ctypes")
    function = core.dlsym(core.dlopen(None, 0), "prctl")
    if core.call_function(function, (option, value, 0, 0, 0)) != 0:
        raise OSError(f"prctl({option}, {value}) failed")


def become_subreaper() -> None:
    """Orphans among the descendants become children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> bool:
    """Ask the kernel for SIGKILL when the parent's thread that forked us ends; False: it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def children_of(pid: int) -> list[int]:
    """The living and defunct children of a process, those that its other threads forked included."""
    try:
        if os.stat(f"/proc/{pid}/task").st_nlink <= ONE_THREAD:  # noqa: PTH116 -- a hot path
            return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]
        names = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 -- a hot path
    except OSError:
        return []
    found: list[int] = []
    for thread in names:
        found += [int(word) for word in _read(f"/proc/{pid}/task/{thread}/children").split()]
    return found


def tree_of(root: int) -> list[int]:
    """`root` and all its descendants; the root first, whether it lives or not."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children_of(pid)
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal to a process that may be gone; answers whether it was there."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_tree(root: int) -> int:
    """SIGKILL a root and all that is found under it now but who clears up; answers how many were signalled.

    What forks in between is caught by the sweep of whoever is the subreaper above, and so is who has cleared up.
    """
    return sum(kill(pid) for pid in tree_of(root) if not _clears_up(pid))


def sweep(mine: Collection[int]) -> int:
    """Kill and reap every child of this process that is not in `mine`; answers how many there were.

    Reaps by number, never "any", so that no exit status is stolen from somebody who waits for it. Who cannot be killed
    (a program of another user, a system call that does not end) is left to the next sweep: it must hold up nobody.
    """
    killed, left, patience = 0, set(mine), _PATIENCE
    for _ in range(_ROUNDS):
        strangers = [pid for pid in children_of(os.getpid()) if pid not in left]
        if not strangers:
            break
        victims = [pid for pid in strangers if not _clears_up(pid)]
        if not victims:  # all whom they waited for are gone
            victims = [pid for pid in strangers if not _ended_by_itself(pid)]
        dying = {pid for pid in victims if kill(pid)}
        killed += len(dying)
        left.update(pid for pid in victims if pid not in dying and _remains(pid))
        while (dying := {pid for pid in dying if _remains(pid)}) and patience > 0:
            signal.sigtimedwait((), _STEP)  # a sleep, for which nothing needs to be imported
            patience -= _STEP
        left |= dying
    return killed


def _clears_up(pid: int) -> bool:
    """Whether it is the process by which Python's multiprocessing removes shared memory and semaphores: it does so, and
    ends, when the last process of its tree has ended. Killed, it would leave them to the pod for good."""
    return _TRACKER in _read(f"/proc/{pid}/cmdline")


def _ended_by_itself(pid: int) -> bool:
    """Whether a child ends within a moment, and reap it."""
    for _ in range(_LOOKS):
        if not _remains(pid):
            return True
        signal.sigtimedwait((), _LOOK)
    return False


def _remains(pid: int) -> bool:
    """Reap a child if it has ended; answers whether it is there still."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def reap(pid: int) -> int | None:
    """The exit status of a child as `waitpid` says it; None: it still lives, or somebody else has reaped it."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return status if found else None


def prefer_for_oom(pid: int, above: int) -> int:
    """Make the kernel's OOM killer choose `pid` before this process; answers the score that was set.

    Raising a score needs no privilege. A container of the lowest class has 1000 already, then nothing is gained.
    """
    own = int(_read("/proc/self/oom_score_adj") or b"0")
    score = min(1000, own + above)
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:  # noqa: PTH123 -- pathlib costs a child memory
            file.write(str(score))
    except OSError:
        return own
    return score


def describe_status(status: int) -> str:
    """An exit status in words: "exit code 3", "SIGKILL"."""
    import signal

    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
