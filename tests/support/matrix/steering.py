"""Verbs of operators and administrators under a fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millgate.brokers.base import CancelState, Fenced, State
from millgate.fleet import Beat, WorkerState
from support.builders import a_topic
from support.matrix.bench import Bench, Case, known


def setup(b: Bench) -> Case:
    queue = f"{b.ground.venue.queue}_{b.topic}"
    client = b.another(queue)

    def check(answers: Sequence[Any]) -> None:
        if known(answers):
            assert client.stats().topics == {}

    return Case(client.setup, check)


def server(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        kind = b.near.server().kind
        assert all(answer.kind == kind for answer in known(answers))

    return Case(b.far.server, check)


def configure(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        policy = b.near.configuration().topics.get(b.topic)
        if known(answers):
            assert policy is not None
            assert policy.limit == 7
            assert all(revision >= 1 for revision in known(answers))

    return Case(lambda: b.far.configure([a_topic(b.topic, limit=7)]), check)


def configuration(b: Bench) -> Case:
    b.near.configure([a_topic(b.topic, limit=7)])

    def check(answers: Sequence[Any]) -> None:
        assert all(answer.topics[b.topic].limit == 7 for answer in known(answers))

    return Case(b.far.configuration, check)


def fence(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        assert all(answer == Fenced(known=True, leased=1) for answer in known(answers))
        if known(answers):
            assert b.hand.claim(5, b.topic) == [], "a fenced worker was given a claim"

    return Case(lambda: b.far.fence(b.hand.worker.name, 30.0), check)


def unfence(b: Bench) -> Case:
    b.near.fence(b.hand.worker.name, 30.0)

    def check(answers: Sequence[Any]) -> None:
        if known(answers):
            assert b.hand.ask(0).state is WorkerState.ACTIVE
        assert known(answers).count(True) <= 1

    return Case(lambda: b.far.unfence(b.hand.worker.name), check)


def pause(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        if known(answers):
            assert b.counts().paused
            assert b.hand.claim(5, b.topic) == []

    return Case(lambda: b.far.pause(b.topic, True), check)


def cancel(b: Bench) -> Case:
    waits, runs = b.waiting[0], b.running
    removed = (CancelState.REMOVED, CancelState.FINISHED)

    def check(answers: Sequence[Any]) -> None:
        for first, second in known(answers):
            assert first in removed
            assert second is CancelState.SIGNALLED
        assert b.counts().failed in ((2,) if known(answers) else (1, 2))
        if known(answers):
            assert b.state(waits) is State.CANCELLED
            answer = b.near.extend(b.hand.worker, [runs.ref], Beat())
            assert answer.cancelled == (runs.id,)

    return Case(lambda: b.far.cancel([waits, runs.id]), check)


def purge(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        row = b.counts()
        seen = (row.waiting, row.failed)
        assert seen in (((0, 3),) if known(answers) else ((0, 3), (2, 1)))
        assert sum(known(answers)) <= 2

    return Case(lambda: b.far.purge(b.topic), check)


def replay(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        row = b.counts()
        seen = (row.dead, row.enqueued)
        assert seen in (((0, 5),) if known(answers) else ((0, 5), (1, 4)))
        assert sum(map(len, known(answers))) <= 1

    return Case(lambda: b.far.replay([b.dead]), check)


def purge_dead(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        assert b.counts().dead in ((0,) if known(answers) else (0, 1))
        assert sum(known(answers)) <= 1

    return Case(lambda: b.far.purge_dead(b.topic), check)
