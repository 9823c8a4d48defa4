"""Verbs of workers under a fault."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from millgate.brokers.base import Ask, State
from millgate.errors import BrokerError
from millgate.fleet import Beat, WorkerState
from millgate.outcome import Reason
from millgate.queues import Subscription
from millgate.settlement import Ack, Bury, Drop, Later, Settlement
from support.builders import a_message, a_worker, an_info
from support.matrix.bench import LOST, Bench, Case, known
from support.wait import eventually
from support.working import Hand

#: Seconds that a wait may last (the brokers' safety nets look every 2 s), and after which what it waits for happens.
WAIT, SOON = 2.5, 0.3


def register(b: Bench) -> Case:
    worker = a_worker()

    def check(answers: Sequence[Any]) -> None:
        rows = [row for row in b.near.stats().workers if row.name == worker.name]
        assert len(rows) == 1 if known(answers) else len(rows) <= 1
        assert all((row.incarnation, row.info.slots) == (worker.incarnation, 9) for row in rows)

    return Case(lambda: b.far.register(worker, an_info(slots=9)), check)


def unregister(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        rows = [row for row in b.near.stats().workers if row.name == b.hand.worker.name]
        assert not (known(answers) and rows)
        assert b.state(b.running.id) is (State.RUNNING if rows else State.WAITING)
        if len(answers) == 2:
            _charged_once(b)

    return Case(lambda: b.far.unregister(b.hand.worker), check)


def requeue(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        assert b.state(b.running.id) is State.WAITING or not known(answers)
        assert sum(map(len, known(answers))) <= 1
        if len(answers) == 2:
            assert b.near.settle([Ack(b.running.ref)]) == (b.running.id,)
            _charged_once(b)

    return Case(lambda: b.far.requeue([b.running.id]), check)


def _charged_once(b: Bench) -> None:
    again = Hand(b.near).claim(10, b.topic)
    assert [claim.interruptions for claim in again if claim.id == b.running.id] == [1]


def claim(b: Bench) -> Case:
    ask, ack = Ask(b.subscription, 1), [Ack(b.running.ref, b"1")]

    def check(answers: Sequence[Any]) -> None:
        row, claims = b.counts(), [one for answer in known(answers) for one in answer.claims]
        assert row.completed == 1 if known(answers) else row.completed in (0, 1)
        assert len({one.id for one in claims}) == len(claims) == len(known(answers))
        assert all(one.attempt == 1 for one in claims)
        held = (row.leased or 0) - (1 - (row.completed or 0))
        # a call that comes through is given what an earlier one was given without knowing
        lost = int(answers[-1] is LOST)
        assert 0 <= held - len(claims) <= lost, f"{held} held after {answers}"
        if len(answers) == 2:
            assert b.near.states([b.running.id])[0].result == b"1"
            others = Hand(b.near).claim(10, b.topic)
            assert not {one.id for one in others} & {one.id for one in claims}
            assert b.near.settle([Ack(one.ref) for one in claims]) == ()

    return Case(lambda: b.far.claim(b.hand.worker, ask, ack), check)


def claim_more(b: Bench) -> Case:
    """More is asked for than there is, of a topic that this client has not heard of."""
    ask = Ask(b.subscription, 5)

    def check(answers: Sequence[Any]) -> None:
        claims = [one.id for answer in known(answers) for one in answer.claims]
        held = (b.counts().leased or 0) - 1
        if known(answers):
            assert claims == b.waiting
        assert held in ((2,) if known(answers) else (0, 2))

    return Case(lambda: b.far.claim(b.hand.worker, ask), check)


def settle(b: Bench) -> Case:
    b.near.publish(b.messages(1))
    later, bury, drop = b.hand.claim(3, b.topic)
    follows = a_message(topic=b.topic)
    settlements: list[Settlement] = [
        Ack(b.running.ref, b"1", publish=[follows]),
        Later(later.ref),
        Bury(bury.ref, Reason.FAILED),
        Drop(drop.ref),
    ]
    ids = tuple(one.claim.id for one in settlements)

    def check(answers: Sequence[Any]) -> None:
        row = b.counts()
        seen = (row.completed, row.waiting, row.dead, row.failed, row.leased)
        none, whole = (0, 0, 1, 1, 4), (1, 2, 2, 3, 0)
        assert seen in ((whole,) if known(answers) else (none, whole)), f"half of it: {row}"
        assert all(stale in ((), ids) for stale in known(answers))
        assert known(answers).count(()) <= 1
        if len(answers) == 2:
            again = {one.id: one.failures for one in Hand(b.near).claim(10, b.topic)}
            assert again == {later.id: 1, follows.id: 0}

    return Case(lambda: b.far.settle(settlements), check)


def extend(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        for answer in known(answers):
            assert (answer.lost, answer.cancelled, answer.state) == ((), (), WorkerState.ACTIVE)
        [row] = [row for row in b.near.stats().workers if row.name == b.hand.worker.name]
        assert row.beat.busy == (3 if known(answers) else row.beat.busy)
        assert b.counts().leased == 1

    return Case(lambda: b.far.extend(b.hand.worker, [b.running.ref], Beat(busy=3)), check)


def progress(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        assert all(answer is True for answer in known(answers))
        assert b.near.states([b.running.id])[0].progress == b"half" or not known(answers)

    return Case(lambda: b.far.progress(b.running.ref, b"half"), check)


def wait_for_work(b: Bench) -> Case:
    empty = f"{b.topic}.empty"
    message = a_message(topic=empty)

    def call() -> bool:
        b.later(SOON, lambda: b.near.publish([message]))
        return b.far.wait_for_work(Subscription((empty,)), WAIT)

    def check(answers: Sequence[Any]) -> None:
        assert answers[0] is True or not b.gentle, "work came and nobody was told"
        assert len(answers) == 1 or answers[1] is True, "work is there and nobody was told"

    return Case(call, check, WAIT)


def interrupt(b: Bench) -> Case:
    nothing = Subscription((f"{b.topic}.empty",))

    def call() -> bool:
        b.later(SOON, b.far.interrupt)
        return b.far.wait_for_work(nothing, 8.0)

    def check(answers: Sequence[Any]) -> None:
        assert all(answer is True for answer in known(answers))
        # One interrupt ends one wait; other cells' work may wake this one.
        if len(known(answers)) == 2:
            eventually(lambda: not b.far.wait_for_work(nothing, 0.1), timeout=3)

    return Case(call, check, SOON)


def close(b: Bench) -> Case:
    ended: list[bool | BaseException] = []

    def wait() -> None:
        try:
            ended.append(b.far.wait_for_work(Subscription((f"{b.topic}.empty",)), 30.0))
        except Exception as error:  # noqa: BLE001 -- looked at below
            ended.append(error)

    def call() -> None:
        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        waiter.join(SOON)
        b.far.close()
        waiter.join(3.0)
        assert not waiter.is_alive(), "who waited on a closed client waits on"

    def check(answers: Sequence[Any]) -> None:
        strange = [end for end in ended if not isinstance(end, bool | BrokerError)]
        assert not strange, f"the wait ended with {strange}"
        assert len(known(answers)) == len(answers)
        with suppress(BrokerError):
            b.far.stats()
            raise AssertionError("a closed client still works")
        row = b.counts()
        assert (row.leased, row.waiting) == (1, 2), "leases stay"

    return Case(call, check, SOON)
