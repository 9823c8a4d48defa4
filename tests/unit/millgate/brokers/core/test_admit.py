"""A gate's slots: who is let in, who is parked, who comes next."""

from __future__ import annotations

from millgate.brokers.core.admit import Gate
from millgate.brokers.core.row import GONE, LANE, LEASED, PARKED, Row
from millgate.brokers.core.topic import Topic
from millgate.message import Message
from millgate.queues import TopicPolicy

TOPIC = Topic(TopicPolicy(name="t"), declared=True)


def row(seq: int, priority: int = 5) -> Row:
    return Row(Message(f"m{seq}", "t", "work", b"", priority, "k"), TOPIC, b"", seq)


def enter(gate: Gate, each: Row) -> bool:
    """Admit a row as its lane would."""
    lane, _ = gate.admit(each)
    if lane:
        each.where = LANE
    return lane


def start(gate: Gate, each: Row) -> None:
    each.where = LEASED
    gate.started(each)


def test_rows_are_let_in_until_the_slots_are_taken() -> None:
    gate, rows = Gate("k", 2, sticky=False), [row(n) for n in range(4)]
    assert [enter(gate, each) for each in rows] == [True, True, False, False]
    assert gate.parked == 2
    assert [each.where for each in rows[2:]] == [PARKED, PARKED]


def test_a_better_rank_displaces_the_worst_of_those_that_have_not_started() -> None:
    gate = Gate("k", 1, sticky=False)
    low, high = row(1), row(2, priority=9)
    enter(gate, low)
    assert gate.admit(high) == (True, low)
    assert low.where == PARKED


def test_what_runs_is_not_displaced() -> None:
    gate = Gate("k", 1, sticky=False)
    low, high = row(1), row(2, priority=9)
    enter(gate, low)
    start(gate, low)
    assert enter(gate, high) is False


def test_the_best_parked_row_comes_next() -> None:
    gate = Gate("k", 1, sticky=False)
    rows = [row(1), row(2), row(3, priority=9)]
    enter(gate, rows[0])
    start(gate, rows[0])
    enter(gate, rows[1])
    enter(gate, rows[2])
    assert gate.next() is None
    rows[0].where = GONE
    gate.ended(rows[0], LEASED)
    assert gate.next() is rows[2]


def test_a_returning_row_frees_its_slot_unless_the_gate_is_sticky() -> None:
    for sticky in (False, True):
        gate, first, second = Gate("k", 1, sticky), row(1), row(2)
        enter(gate, first)
        start(gate, first)
        enter(gate, second)
        gate.returned(first)
        assert (gate.next() is second) is not sticky


def test_a_started_row_of_a_sticky_gate_comes_back_in_before_all_others() -> None:
    gate, first, urgent = Gate("k", 1, sticky=True), row(1), row(2, priority=9)
    enter(gate, first)
    start(gate, first)
    gate.returned(first)
    assert enter(gate, urgent) is False
    assert gate.admit(first) == (True, None)


def test_parked_rows_that_leave_are_forgotten() -> None:
    gate = Gate("k", 1, sticky=False)
    rows = [row(n) for n in range(500)]
    for each in rows:
        enter(gate, each)
    for each in rows[1:]:
        each.where = GONE
        gate.ended(each, PARKED)
    assert (gate.parked, list(gate)) == (0, [])
    assert len(gate._parked) < 100
    rows[0].where = GONE
    gate.ended(rows[0], LANE)
    assert gate.empty
