"""A proof that the server takes messages: when it is sent, when it is late, and that this is told once."""

from __future__ import annotations

from millgate.brokers.rabbitmq.proof import EVERY, LATE, Proof


def test_the_first_is_due_at_once_and_the_next_a_while_after_it_came() -> None:
    proof = Proof(100.0)
    assert proof.due(100.0)
    assert not proof.due(200.0), "one is under way"
    proof.came(100.2)
    assert not proof.due(100.2 + EVERY - 0.01)
    assert proof.wake_in(100.2) == EVERY
    assert proof.due(100.2 + EVERY)


def test_one_that_comes_in_time_held_nobody_up() -> None:
    proof = Proof(0.0)
    proof.due(0.0)
    assert not proof.late(LATE)
    proof.came(LATE)
    assert not proof.was_held_up()


def test_one_that_comes_late_is_told_once() -> None:
    proof = Proof(0.0)
    proof.due(0.0)
    assert proof.wake_in(0.25) == LATE - 0.25
    assert proof.late(LATE + 0.1)
    proof.came(LATE + 5)
    assert not proof.late(LATE + 6)
    assert proof.was_held_up()
    assert not proof.was_held_up()
