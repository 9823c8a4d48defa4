"""The whole fate of a run, as a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.message import Claim
from millgate.outcome import (
    Cancelled,
    Died,
    Failure,
    Interrupted,
    Outcome,
    Raised,
    Reason,
    Rejected,
    RetryRequested,
    Returned,
)
from millgate.retry import Backoff, Jitter, RetryPolicy
from millgate.settlement import MEMBER_TTL, Ack, Bury, Charge, Drop, Later, Settlement, settle
from support.builders import a_message

WHY = Failure("ValueError", "no")
POLICY = RetryPolicy(
    attempts=3, losses=2, interruptions=4, backoff=Backoff(initial=10, jitter=Jitter.NONE)
)
STEP = a_message()


def claim(failures: int = 0, losses: int = 0, interruptions: int = 0) -> Claim:
    counts = {"failures": failures, "losses": losses, "interruptions": interruptions}
    return Claim("m", "t", "token", b"", **counts, result_ttl=5.0)


REF = claim().ref
FIRST, SECOND, LAST = claim(), claim(failures=1), claim(failures=2)

TABLE: list[tuple[str, Claim, Outcome, Settlement]] = [
    (
        "a value is acknowledged with what follows",
        FIRST,
        Returned(b"1", (STEP,)),
        Ack(REF, b"1", 5.0, (STEP,)),
    ),
    ("a value ends the last attempt too", LAST, Returned(None), Ack(REF, None, 5.0, ())),
    ("the first failure waits", FIRST, Raised(WHY), Later(REF, 10, Charge.FAILURE, WHY)),
    ("the second failure waits longer", SECOND, Raised(WHY), Later(REF, 20, Charge.FAILURE, WHY)),
    ("the last failure buries", LAST, Raised(WHY), Bury(REF, Reason.FAILED, WHY)),
    (
        "a soft timeout is a failure",
        FIRST,
        Raised(WHY, Reason.TIMED_OUT),
        Later(REF, 10, Charge.FAILURE, WHY),
    ),
    (
        "the last soft timeout says so",
        LAST,
        Raised(WHY, Reason.TIMED_OUT),
        Bury(REF, Reason.TIMED_OUT, WHY),
    ),
    ("a retry keeps its time", FIRST, RetryRequested(3, WHY), Later(REF, 3, Charge.FAILURE, WHY)),
    ("a retry is bounded", LAST, RetryRequested(3, WHY), Bury(REF, Reason.FAILED, WHY)),
    (
        "a free retry is not",
        LAST,
        RetryRequested(3, WHY, charge=False),
        Later(REF, 3, Charge.NOTHING, WHY),
    ),
    (
        "a free retry without a time waits as the backoff says, by how often the run was given back",
        claim(failures=2, interruptions=1),
        RetryRequested(None, WHY, charge=False),
        Later(REF, 20, Charge.NOTHING, WHY),
    ),
    (
        "a free retry is not bounded by interruptions",
        claim(interruptions=9),
        RetryRequested(3, WHY, charge=False),
        Later(REF, 3, Charge.NOTHING, WHY),
    ),
    ("a reject buries at once", FIRST, Rejected(WHY), Bury(REF, Reason.REJECTED, WHY)),
    (
        "a refused result buries",
        FIRST,
        Rejected(WHY, Reason.RESULT_REFUSED),
        Bury(REF, Reason.RESULT_REFUSED, WHY),
    ),
    (
        "a hard timeout is a failure",
        FIRST,
        Died(Reason.TIMED_OUT, WHY),
        Later(REF, 10, Charge.FAILURE, WHY),
    ),
    (
        "the last hard timeout buries",
        LAST,
        Died(Reason.TIMED_OUT, WHY),
        Bury(REF, Reason.TIMED_OUT, WHY),
    ),
    (
        "too much memory is a failure",
        FIRST,
        Died(Reason.MEMORY_EXCEEDED, WHY),
        Later(REF, 10, Charge.FAILURE, WHY),
    ),
    (
        "too much memory at last buries",
        LAST,
        Died(Reason.MEMORY_EXCEEDED, WHY),
        Bury(REF, Reason.MEMORY_EXCEEDED, WHY),
    ),
    ("a lost child is a loss", LAST, Died(Reason.LOST, WHY), Later(REF, 10, Charge.LOSS, WHY)),
    (
        "losses wait longer each time",
        claim(losses=1),
        Died(Reason.LOST, WHY),
        Later(REF, 20, Charge.LOSS, WHY),
    ),
    ("too many losses bury", claim(losses=2), Died(Reason.LOST, WHY), Bury(REF, Reason.LOST, WHY)),
    (
        "the last interruption is nobody's too",
        claim(interruptions=3),
        Interrupted(),
        Later(REF, 0, Charge.NOTHING),
    ),
    ("an interruption is nobody's", LAST, Interrupted(4), Later(REF, 4, Charge.NOTHING)),
    ("a cancelled run is dropped", FIRST, Cancelled(), Drop(REF)),
]


@pytest.mark.parametrize(
    ("held", "outcome", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_table(held: Claim, outcome: Outcome, expected: Settlement) -> None:
    assert settle(held, outcome, POLICY, draw=0.5) == expected


def test_one_attempt_means_no_retry() -> None:
    once = RetryPolicy(attempts=1)
    assert isinstance(settle(FIRST, Raised(WHY), once, 0.5), Bury)


def test_what_is_cut_short_too_often_is_given_up_and_says_so() -> None:
    settled = settle(claim(interruptions=4), Interrupted(), POLICY, 0.5)
    assert isinstance(settled, Bury)
    assert settled.reason is Reason.INTERRUPTED
    assert settled.failure is not None
    assert "given back 5 times" in settled.failure.message


def test_no_losses_means_the_first_one_buries() -> None:
    assert isinstance(settle(FIRST, Died(Reason.LOST, WHY), RetryPolicy(losses=0), 0.5), Bury)


@given(st.integers(1, 20))
def test_a_task_that_always_fails_is_started_exactly_that_often(attempts: int) -> None:
    policy = RetryPolicy(attempts=attempts)
    starts = 0
    while True:
        starts += 1
        settlement = settle(claim(failures=starts - 1), Raised(WHY), policy, 0.5)
        if isinstance(settlement, Bury):
            break
        assert isinstance(settlement, Later)
    assert starts == attempts


@pytest.mark.parametrize(
    ("group", "own", "topic", "kept"),
    [
        (None, None, 5.0, None),
        (None, 0.0, 5.0, 0.0),
        ("g", None, 0.0, MEMBER_TTL),
        ("g", None, 7 * MEMBER_TTL, 7 * MEMBER_TTL),
        ("g", 5.0, 7 * MEMBER_TTL, MEMBER_TTL),
        ("g", 2 * MEMBER_TTL, 0.0, 2 * MEMBER_TTL),
    ],
)
def test_a_members_result_is_kept_for_its_callback(
    group: str | None, own: float | None, topic: float, kept: float | None
) -> None:
    claim = Claim("m", "t", "token", b"", result_ttl=own, group=group)
    settlement = settle(claim, Returned(b"1"), RetryPolicy(), 0.5, topic)
    assert isinstance(settlement, Ack)
    assert settlement.result_ttl == kept
