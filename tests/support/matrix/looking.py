"""Verbs that only look, under a fault: what they answer is true, or they say that they do not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millgate.brokers.base import State, TaskState
from millgate.settlement import Ack
from support.matrix.bench import Bench, Case, known
from support.matrix.working import SOON, WAIT


def stats(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        for answer in known(answers):
            row = answer.topics[b.topic]
            assert (row.waiting, row.leased, row.dead, row.enqueued) == (2, 1, 1, 4)
            assert b.hand.worker.name in [worker.name for worker in answer.workers]

    return Case(b.far.stats, check)


def states(b: Bench) -> Case:
    ids = [b.running.id, *b.waiting, b.dead, "never-seen"]
    truth = [State.RUNNING, State.WAITING, State.WAITING, State.FAILED, State.UNKNOWN]

    def check(answers: Sequence[Any]) -> None:
        assert all([one.state for one in answer] == truth for answer in known(answers))

    return Case(lambda: b.far.states(ids), check)


def wait(b: Bench) -> Case:
    ids = [b.running.id, b.waiting[0]]

    def call() -> list[TaskState]:
        b.later(SOON, lambda: b.near.settle([Ack(b.running.ref, b"1")]))
        return b.far.wait(ids, WAIT)

    def check(answers: Sequence[Any]) -> None:
        done, open_ = [State.SUCCEEDED, State.WAITING], [State.RUNNING, State.WAITING]
        seen = [[one.state for one in answer] for answer in known(answers)]
        assert all(one in (done, open_) for one in seen)
        assert not b.gentle or seen[0] == done, "it ended and nobody was told"
        assert len(answers) == 1 or seen[-1] == done

    return Case(call, check, WAIT)


def peek(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        for answer in known(answers):
            assert [seen.id for seen in answer] == b.waiting

    return Case(lambda: b.far.peek(b.topic, State.WAITING), check)


def dead(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        assert all([one.id for one in answer] == [b.dead] for answer in known(answers))

    return Case(lambda: b.far.dead(b.topic), check)


def dead_letter(b: Bench) -> Case:
    def check(answers: Sequence[Any]) -> None:
        for answer in known(answers):
            assert answer is not None
            assert answer.message is not None
            assert answer.message.id == b.dead

    return Case(lambda: b.far.dead_letter(b.dead), check)
