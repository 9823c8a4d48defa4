"""A worker that is silent for 90 s is forgotten; what is known of it lasts for as long as it holds something."""

from __future__ import annotations

import time

import pytest

from millgate.brokers.base import Fenced
from millgate.brokers.redis import RedisBroker
from millgate.fleet import Beat, WorkerState
from millgate.queues import Subscription
from support import servers
from support.builders import a_message
from support.redis import Admin
from support.wait import eventually
from support.working import Hand, at_work, has_still


@pytest.fixture
def admin() -> Admin:
    return Admin(servers.redis().port)


def silent(admin: Admin, *hands: Hand, seconds: float = 91.0) -> None:
    """Let that time pass without a word of theirs, and nobody have come by since."""
    for hand in hands:
        assert isinstance(hand.broker, RedisBroker)
        prefix, seen = hand.broker.target.prefix, round((time.time() - seconds) * 1000)
        admin("HSET", f"{prefix}w:{hand.worker.name}", "seen", seen)
        admin("ZADD", f"{prefix}ws", seen, hand.worker.name)


def test_a_silent_worker_is_unknown_to_every_verb(broker: RedisBroker, admin: Admin) -> None:
    hand, claim = at_work(broker)
    broker.publish([a_message()])
    silent(admin, hand)
    assert broker.fence(hand.worker.name, 60.0) == Fenced(known=False, leased=None)
    assert broker.unfence(hand.worker.name) is False
    assert broker.stats().workers == ()
    silent(admin, hand)
    assert broker.extend(hand.worker, [claim.ref], Beat()).state is WorkerState.UNKNOWN
    answer = hand.ask()
    assert (answer.claims, answer.state) == ((), WorkerState.UNKNOWN)


def test_a_silent_worker_that_is_fenced_is_known_until_its_fence_ends(
    broker: RedisBroker, admin: Admin
) -> None:
    hand = Hand(broker)
    broker.fence(hand.worker.name, 60.0)
    silent(admin, hand)
    (row,) = broker.stats().workers
    assert (row.name, row.state) == (hand.worker.name, WorkerState.FENCED)
    assert broker.fence(hand.worker.name, 30.0).known
    assert broker.unfence(hand.worker.name) is True
    assert broker.stats().workers == ()


def test_fenced_workers_that_are_silent_keep_no_others_from_being_forgotten(
    broker: RedisBroker, admin: Admin
) -> None:
    fenced = [Hand(broker) for _ in range(25)]
    for hand in fenced:
        broker.fence(hand.worker.name, 60.0)
    silent(admin, *fenced, seconds=200.0)
    last = Hand(broker)
    silent(admin, last)

    def forgotten() -> bool:
        broker.wait_for_work(Subscription(), 0.05)
        return not admin("EXISTS", f"{broker.target.prefix}w:{last.worker.name}")

    eventually(forgotten)
    assert len(broker.stats().workers) == 25


def test_a_start_that_was_forgotten_while_its_leases_ran_on_has_them_still(
    broker: RedisBroker, admin: Admin
) -> None:
    hand, claim = at_work(broker)
    prefix = broker.target.prefix
    admin("ZADD", f"{prefix}ws", 0, hand.worker.name)  # as after 90 s without a word

    def forgotten() -> bool:
        broker.wait_for_work(Subscription(), 0.05)
        return not admin("EXISTS", f"{prefix}w:{hand.worker.name}")

    eventually(forgotten)
    has_still(hand, claim)
