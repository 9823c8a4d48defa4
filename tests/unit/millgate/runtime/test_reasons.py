"""Why a child ended, when it was to be replaced anyway: what ended it counts, not the plan."""

from __future__ import annotations

import signal

import pytest

from millgate.outcome import Died, Reason
from millgate.runtime.death import cause, outcome_of
from millgate.runtime.recycle import REPLACING, Because

_KILLED = signal.SIGKILL.value  # as waitpid says it


@pytest.mark.parametrize("planned", sorted(REPLACING))
def test_the_kernels_kill_of_a_child_that_was_to_be_replaced_is_an_oom(planned: Because) -> None:
    assert cause(planned, _KILLED, oom=True, limited=False) is Because.OOM_KILLED
    assert cause(planned, _KILLED, oom=False, limited=False) is Because.EXITED


@pytest.mark.parametrize("planned", sorted(REPLACING))
def test_a_replaced_child_that_ended_by_itself_keeps_its_reason(planned: Because) -> None:
    assert cause(planned, 0, oom=False, limited=False) is planned


def test_a_kill_at_the_hard_ceiling_is_charged_as_memory() -> None:
    because = cause(Because.HARD_MAX_RSS, _KILLED, oom=False, limited=True)
    outcome = outcome_of(None, because, _KILLED)
    assert isinstance(outcome, Died)
    assert outcome.reason is Reason.MEMORY_EXCEEDED
