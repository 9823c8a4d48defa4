"""What a broker shows beside what the reference queue shows: the same, as far as both can know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from millgate.brokers.base import DeadLetter, Peeked, State, TaskState
from millgate.stats import Stats
from support.follow import counts as counts_of

PLACES: Final = (State.WAITING, State.DELAYED, State.RUNNING)


def counts(real: Stats, modelled: Stats) -> None:
    """Every count of topics and workers."""
    for name in set(real.topics) | set(modelled.topics):
        assert counts_of(real.topics.get(name)) == counts_of(modelled.topics.get(name)), name
    assert [(row.name, row.state, row.leased) for row in real.workers] == [
        (row.name, row.state, row.leased) for row in modelled.workers
    ]
    assert real.revision == modelled.revision


def states(real: Sequence[TaskState], modelled: Sequence[TaskState]) -> None:
    """What is known of each id."""
    assert [_known(one) for one in real] == [_known(one) for one in modelled]


def letters(real: Sequence[DeadLetter], modelled: Sequence[DeadLetter]) -> None:
    """Dead letters, in order."""
    assert [_letter(one) for one in real] == [_letter(one) for one in modelled]


def places(real: Sequence[Peeked], modelled: Sequence[Peeked], *, ordered: bool) -> None:
    """What lies in one place of a topic, in its order where that is `ordered`."""
    found = [(one.id, one.attempt, one.worker) for one in real]
    expected = [(one.id, one.attempt, one.worker) for one in modelled]
    if not ordered:
        found.sort()
        expected.sort()
    assert found == expected


def _known(one: TaskState) -> tuple[object, ...]:
    return one.id, one.state, one.attempt, one.result, one.reason, one.worker


def _letter(one: DeadLetter) -> tuple[object, ...]:
    charged = one.failures, one.losses, one.interruptions
    return one.id, one.topic, one.reason, one.attempt, charged, one.worker, one.failure
