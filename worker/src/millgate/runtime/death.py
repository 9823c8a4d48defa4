"""What a child's end means for the runs that were in it: pure."""

from __future__ import annotations

import signal
from typing import Final

from millgate.outcome import Cancelled, Died, Failure, Interrupted, Outcome, Reason
from millgate.runtime.processes import describe_status
from millgate.runtime.recycle import REPLACING, Because

_MEMORY: Final = {
    Because.HARD_MAX_RSS: "the process tree of the task grew over the hard memory ceiling and was stopped",
    Because.POD_BUDGET: "the pod was about to exceed its memory limit; this was its largest process tree",
    Because.OOM_KILLED: "the kernel's OOM killer ended the task's process",
    Because.DATA_LIMIT: "the task's process reserved more memory than its hard ceiling and was aborted",
}
_BROKEN: Final = (
    "the child process did not speak with its worker any more and was stopped: something in it holds the interpreter,"
    " or has closed or written into descriptors that are not its own"
)
#: Endings that we brought about for a reason that is nobody's fault.
_OURS: Final = {Because.DRAINED, Because.LEASE_LOST, Because.HARD_TIMEOUT, Because.CANCELLED}


def cause(because: Because | None, status: int, *, oom: bool, limited: bool) -> Because:
    """Why a child ended: our own reason first, then the kernel's; `limited`: it had a data limit.

    A child that was only to be replaced after its task, and did not end by itself, ended for another reason.
    """
    ended_by = -status_code(status)
    if because is not None and not (because in REPLACING and ended_by > 0):
        return because
    if oom and ended_by == signal.SIGKILL:
        return Because.OOM_KILLED
    if limited and ended_by == signal.SIGABRT:
        return Because.DATA_LIMIT
    return Because.EXITED


def status_code(status: int) -> int:
    """An exit code, or the negative number of the signal."""
    import os

    return os.waitstatus_to_exitcode(status)


def outcome_of(stopping: Because | None, because: Because, status: int) -> Outcome:
    """The outcome of a run that had started when its child ended.

    `stopping` is why this very run was stopped, `because` why its child ended: a neighbour of a stopped run in a child
    with several slots is interrupted, charged to nobody.
    """
    match stopping:
        case Because.HARD_TIMEOUT:
            return Died(Reason.TIMED_OUT, _failure("HardTimeout", "it ran past its hard timeout"))
        case Because.CANCELLED:
            return Cancelled()
        case Because.DRAINED | Because.LEASE_LOST:
            return Interrupted()
    if because in _MEMORY:
        return Died(Reason.MEMORY_EXCEEDED, _failure("MemoryExceeded", _MEMORY[because]))
    if because in _OURS:
        return Interrupted()
    if because is Because.BROKEN:
        return Died(Reason.LOST, _failure("ChildBroken", _BROKEN))
    words = describe_status(status)
    return Died(
        Reason.LOST, _failure("ChildDied", f"the child process ended with {words} during the run")
    )


def _failure(name: str, message: str) -> Failure:
    return Failure(f"millgate.{name}", message)
