"""What a child's end means for its runs, as a table."""

from __future__ import annotations

import signal

import pytest

from millgate.outcome import Cancelled, Died, Interrupted, Reason
from millgate.runtime.death import cause, outcome_of
from millgate.runtime.recycle import Because

KILLED = signal.SIGKILL.value
ABORTED = signal.SIGABRT.value


@pytest.mark.parametrize(
    ("because", "status", "oom", "limited", "expected"),
    [
        (None, KILLED, True, False, Because.OOM_KILLED),
        (None, KILLED, False, False, Because.EXITED),
        (None, ABORTED, False, True, Because.DATA_LIMIT),
        (None, ABORTED, False, False, Because.EXITED),
        (None, 3 << 8, True, True, Because.EXITED),
        (Because.HARD_TIMEOUT, KILLED, True, False, Because.HARD_TIMEOUT),
    ],
)
def test_our_own_reason_comes_first_then_the_kernels(
    because: Because | None, status: int, oom: bool, limited: bool, expected: Because
) -> None:
    assert cause(because, status, oom=oom, limited=limited) is expected


@pytest.mark.parametrize(
    ("because", "reason"),
    [
        (Because.HARD_MAX_RSS, Reason.MEMORY_EXCEEDED),
        (Because.POD_BUDGET, Reason.MEMORY_EXCEEDED),
        (Because.OOM_KILLED, Reason.MEMORY_EXCEEDED),
        (Because.DATA_LIMIT, Reason.MEMORY_EXCEEDED),
        (Because.EXITED, Reason.LOST),
        (Because.BROKEN, Reason.LOST),
    ],
)
def test_a_run_dies_with_its_child(because: Because, reason: Reason) -> None:
    outcome = outcome_of(None, because, KILLED)
    assert isinstance(outcome, Died)
    assert outcome.reason is reason


def test_a_run_that_was_stopped_knows_why_and_its_neighbours_are_charged_nothing() -> None:
    timed_out = outcome_of(Because.HARD_TIMEOUT, Because.HARD_TIMEOUT, KILLED)
    assert isinstance(timed_out, Died)
    assert timed_out.reason is Reason.TIMED_OUT
    assert outcome_of(None, Because.HARD_TIMEOUT, KILLED) == Interrupted()
    assert outcome_of(Because.CANCELLED, Because.CANCELLED, KILLED) == Cancelled()
    assert outcome_of(None, Because.CANCELLED, KILLED) == Interrupted()
    assert outcome_of(Because.DRAINED, Because.DRAINED, KILLED) == Interrupted()


def test_the_failure_says_how_the_process_ended() -> None:
    outcome = outcome_of(None, Because.EXITED, signal.SIGSEGV.value)
    assert isinstance(outcome, Died)
    assert "SIGSEGV" in outcome.failure.message
