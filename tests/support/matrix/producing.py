"""Verbs of producers, schedules and locks under a fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millgate.message import Group
from support.matrix.bench import Bench, Case, known


def publish(b: Bench) -> Case:
    new = b.messages(3)
    names = [message.id for message in new]

    def check(answers: Sequence[Any]) -> None:
        for receipts in known(answers):
            assert [receipt.id for receipt in receipts] == names
        assert b.counts().enqueued in ((7,) if known(answers) else (4, 7))

    return Case(lambda: b.far.publish(new), check)


def publish_group(b: Bench) -> Case:
    *members, callback = b.messages(3)
    group = Group(f"g-{b.topic}", tuple(member.id for member in members), callback)

    def check(answers: Sequence[Any]) -> None:
        for receipts in known(answers):
            assert [receipt.id for receipt in receipts] == list(group.members)
        assert b.counts().enqueued in ((6,) if known(answers) else (4, 6))
        if len(answers) == 2:
            started = b.hand.run_all(b.topic)
            assert started == [*b.waiting, *group.members, callback.id]

    return Case(lambda: b.far.publish(members, group), check)


def fire(b: Bench) -> Case:
    new = b.messages(2)

    def check(answers: Sequence[Any]) -> None:
        enqueued, fired = b.counts().enqueued, b.near.schedules().get(b.topic)
        assert (enqueued, fired) in (((6, 100.0),) if known(answers) else ((6, 100.0), (4, None)))
        assert known(answers).count(True) <= 1, "two callers believe that they fired"

    return Case(lambda: b.far.fire(b.topic, 100.0, new), check)


def schedules(b: Bench) -> Case:
    b.near.fire(b.topic, 100.0, [])

    def check(answers: Sequence[Any]) -> None:
        assert all(slots[b.topic] == 100.0 for slots in known(answers))

    return Case(b.far.schedules, check)


def acquire(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        held = [lock for lock in b.near.locks() if lock.name == b.topic]
        assert len(held) == 1 if known(answers) else len(held) <= 1
        for lock in known(answers):
            assert (lock.holder, lock.fence) == ("me", held[0].fence)
        assert not held or b.near.acquire(b.topic, "another", 30.0) is None

    return Case(lambda: b.far.acquire(b.topic, "me", 30.0), check)


def renew(b: Bench) -> Case:
    lock = b.near.acquire(b.topic, "me", 30.0)
    assert lock is not None

    def check(answers: Sequence[Any]) -> None:
        assert all(answer is True for answer in known(answers))
        [held] = [one for one in b.near.locks() if one.name == b.topic]
        assert held.fence == lock.fence
        assert held.left > 60 or not known(answers)

    return Case(lambda: b.far.renew(b.topic, "me", lock.fence, 90.0), check)


def release(b: Bench) -> Case:
    lock = b.near.acquire(b.topic, "me", 30.0)
    assert lock is not None

    def check(answers: Sequence[Any]) -> None:
        held = [one for one in b.near.locks() if one.name == b.topic]
        assert not (known(answers) and held)
        assert known(answers).count(True) <= 1
        if len(answers) == 2:  # the next one's grant is its own, whatever comes late
            grant = b.near.acquire(b.topic, "another", 30.0)
            assert grant is not None
            assert grant.fence > lock.fence
            assert b.far.release(b.topic, "me", lock.fence) is False

    return Case(lambda: b.far.release(b.topic, "me", lock.fence), check)


def locks(b: Bench) -> Case:
    b.near.acquire(b.topic, "me", 30.0)

    def check(answers: Sequence[Any]) -> None:
        for held in known(answers):
            assert [lock.holder for lock in held if lock.name == b.topic] == ["me"]

    return Case(b.far.locks, check)
