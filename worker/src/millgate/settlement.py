"""What the broker is told about a run: settlements as values, and the pure decision that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, assert_never

from millgate.frozen import dataclass, quick
from millgate.message import Claim, ClaimRef, Message
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
from millgate.retry import RetryPolicy


class Charge(StrEnum):
    """Which bound an attempt that is given back counts against."""

    FAILURE = "failure"
    LOSS = "loss"
    NOTHING = "nothing"  # counted as an interruption, whose bound is far away


@quick
@dataclass(frozen=True, slots=True)
class Ack:
    """Done. The result (if kept) and the messages to publish are stored in the same step."""

    claim: ClaimRef
    result: bytes | None = None
    result_ttl: float | None = None  # None: as the topic says; 0: keep none
    publish: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Later:
    """Not done: claimable again after `delay` seconds.

    When the charge reaches the bound (`attempts` failures, or the topic's losses), the broker does not decide:
    whoever settles has compared already; only an expired lease is judged by the broker itself.
    """

    claim: ClaimRef
    delay: float = 0.0
    charge: Charge = Charge.FAILURE
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Bury:
    """Given up: to the dead letters, whole, with the reason. Waiters see the failure."""

    claim: ClaimRef
    reason: Reason
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Cancelled while it ran: gone, not a dead letter. Waiters see Cancelled."""

    claim: ClaimRef


Settlement = Ack | Later | Bury | Drop


#: Seconds for which the result of a group's member is kept at least: the callback reads it when the last one has ended.
MEMBER_TTL: Final = 86400.0


def kept_for(claim: Claim, topic: float) -> float | None:
    """Seconds to keep the result of a run, whose topic keeps results for `topic`; None: as the topic says."""
    if claim.group is None:
        return claim.result_ttl
    return max(topic if claim.result_ttl is None else claim.result_ttl, MEMBER_TTL)


def settle(  # noqa: C901, PLR0911 -- one case a line is the point
    claim: Claim,
    outcome: Outcome,
    policy: RetryPolicy,
    draw: float,
    topic_ttl: float = MEMBER_TTL,
) -> Settlement:
    """The whole fate of a run. `draw` is uniform in [0, 1) and only spreads retries; `topic_ttl`: how long its topic
    keeps results."""
    ref = claim.ref
    match outcome:
        case Returned():
            return Ack(ref, outcome.result, kept_for(claim, topic_ttl), outcome.publish)
        case Interrupted(delay):
            return _given_back(claim, policy, delay)
        case Cancelled():
            return Drop(ref)
        case Rejected(failure, reason):
            return Bury(ref, reason, failure)
        case RetryRequested():
            return _asked_again(claim, outcome, policy, draw)
        case Raised(failure, reason):
            return _after_failure(
                claim, reason, failure, policy, policy.backoff.delay(claim.failures + 1, draw)
            )
        case Died(Reason.LOST, failure):
            delay = policy.backoff.delay(claim.losses + 1, draw)
            if claim.losses + 1 > policy.losses:
                return Bury(ref, Reason.LOST, failure)
            return Later(ref, delay, Charge.LOSS, failure)
        case Died(reason, failure):
            return _after_failure(
                claim, reason, failure, policy, policy.backoff.delay(claim.failures + 1, draw)
            )
        case _:
            assert_never(outcome)


def _given_back(claim: Claim, policy: RetryPolicy, delay: float) -> Settlement:
    if claim.interruptions < policy.interruptions:
        return Later(claim.ref, delay, Charge.NOTHING)
    text = f"given back {claim.interruptions + 1} times; see in the logs why its workers were shut down while it ran"
    return Bury(claim.ref, Reason.INTERRUPTED, Failure("millgate.Interrupted", text))


def _asked_again(
    claim: Claim, wish: RetryRequested, policy: RetryPolicy, draw: float
) -> Settlement:
    before = claim.failures if wish.charge else claim.interruptions
    delay = policy.backoff.delay(before + 1, draw) if wish.delay is None else wish.delay
    if wish.charge:
        return _after_failure(claim, Reason.FAILED, wish.failure, policy, delay)
    return Later(claim.ref, delay, Charge.NOTHING, wish.failure)


def _after_failure(
    claim: Claim, reason: Reason, failure: Failure, policy: RetryPolicy, delay: float
) -> Settlement:
    if claim.failures + 1 >= policy.attempts:
        return Bury(claim.ref, reason, failure)
    return Later(claim.ref, delay, Charge.FAILURE, failure)
