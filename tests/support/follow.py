"""Lets the reference queue follow another broker's claim: checks that it was allowed, then does the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from millgate.brokers.base import Ask
from millgate.brokers.core import Core
from millgate.brokers.core.choose import choose
from millgate.brokers.core.claim import _serve, entrants
from millgate.fleet import WorkerRef, WorkerState
from millgate.message import Claim
from millgate.stats import TopicStats


def follow(
    model: Core, now: float, worker: WorkerRef, ask: Ask, claims: Sequence[Claim]
) -> list[Claim]:
    """The model's claims of the same messages, in the same order.

    Fails when as many as could start were not handed over, when one may not start, or when a topic's order is broken.
    """
    store = model.store
    known = store.workers.get(worker.name)
    allowed = (
        known is not None
        and known.incarnation == worker.incarnation
        and known.state(now) is WorkerState.ACTIVE
        and not store.config.queue.suspended
    )
    could = choose(entrants(store, now, ask.subscription), ask.n, store.room()) if allowed else []
    expected = sum(entrant.granted for entrant in could)
    assert len(claims) == expected, f"{len(claims)} were handed over, {expected} could start"
    levels = {entrant.name: entrant.level for entrant in entrants(store, now, ask.subscription)}
    shares = Counter({entrant.name: entrant.granted for entrant in could})
    assert _by_level(levels, shares) == _by_level(
        levels, Counter(claim.topic for claim in claims)
    ), "a lower level was served before a higher one"
    followed: dict[str, Claim] = {}
    for topic in {claim.topic for claim in claims}:
        assert known is not None
        got: list[Claim] = []
        ids = [claim.id for claim in claims if claim.topic == topic]
        _serve(store, now, known, store.topics[topic], len(ids), got)
        assert ids == [claim.id for claim in got], f"topic {topic} was not served in order"
        followed.update({claim.id: claim for claim in got})
    for claim in claims:
        same = followed[claim.id]
        assert _counts(claim) == _counts(same)
    return [followed[claim.id] for claim in claims]


def counts(topic: TopicStats | None) -> tuple[int | None, ...]:
    """What is compared of a topic; one that was never used counts as zeros."""
    if topic is None:
        return (0,) * 9
    return (
        topic.waiting,
        topic.claimable,
        topic.delayed,
        topic.leased,
        topic.dead,
        topic.enqueued,
        topic.started,
        topic.completed,
        topic.failed,
    )


def _by_level(levels: dict[str, int], shares: Counter[str]) -> Counter[int]:
    total: Counter[int] = Counter()
    for name, count in shares.items():
        total[levels[name]] += count
    return total


def _counts(claim: Claim) -> tuple[object, ...]:
    return (
        claim.attempt,
        claim.failures,
        claim.losses,
        claim.interruptions,
        claim.priority,
        claim.key,
        claim.group,
        claim.record,
    )
