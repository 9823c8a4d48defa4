"""Which number a claim goes under."""

from __future__ import annotations

from itertools import count

import pytest

from millgate.brokers.unanswered import Unanswered
from millgate.errors import BrokerRefused, BrokerUnavailable, QueueFull
from millgate.fleet import WorkerRef

ONE, OTHER = WorkerRef("w", "1"), WorkerRef("w", "2")


@pytest.fixture
def claims() -> Unanswered[int]:
    return Unanswered(count(1).__next__)


def fail(claims: Unanswered[int], worker: WorkerRef, error: BaseException) -> int:
    with pytest.raises(type(error)), claims.claim(worker) as (number, _):
        raise error
    return number


def test_each_claim_that_is_answered_has_a_number_of_its_own(claims: Unanswered[int]) -> None:
    for expected in (1, 2, 3):
        with claims.claim(ONE) as given:
            assert given == (expected, False)


def test_after_silence_the_number_is_used_until_there_is_an_answer(
    claims: Unanswered[int],
) -> None:
    assert fail(claims, ONE, BrokerUnavailable("gone")) == 1
    assert fail(claims, ONE, BrokerUnavailable("gone")) == 1
    with claims.claim(ONE) as given:
        assert given == (1, True)
    with claims.claim(ONE) as given:
        assert given == (2, False)


def test_another_start_has_nothing_to_do_with_it(claims: Unanswered[int]) -> None:
    fail(claims, ONE, BrokerUnavailable("gone"))
    with claims.claim(OTHER) as given:
        assert given == (2, False)


@pytest.mark.parametrize("error", [QueueFull("full"), BrokerRefused("no")])
def test_a_refusal_is_an_answer(claims: Unanswered[int], error: Exception) -> None:
    fail(claims, ONE, error)
    with claims.claim(ONE) as given:
        assert given == (2, False)


def test_whoever_interrupts_a_call_does_not_know_what_became_of_it(
    claims: Unanswered[int],
) -> None:
    fail(claims, ONE, KeyboardInterrupt())
    with claims.claim(ONE) as given:
        assert given == (1, True)


def test_two_calls_under_way_at_once_are_two(claims: Unanswered[int]) -> None:
    with claims.claim(ONE) as first, claims.claim(ONE) as second:
        assert (first, second) == ((1, False), (2, False))
