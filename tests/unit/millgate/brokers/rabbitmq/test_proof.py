"""A proof that the server takes messages: when it is sent, when it is late, and that this is told once."""

from __future__ import annotations

from millgate.brokers.rabbitmq.proof import AGAIN, EVERY, LATE, Proof


def test_the_first_is_due_at_once_and_the_next_a_while_after_it_came() -> None:
    proof = Proof(100.0)
    assert proof.due(100.0)
    assert not proof.due(100.0 + AGAIN - 0.01), "one is under way"
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


def test_one_that_was_lost_is_sent_again_and_time_goes_on_with_the_next() -> None:
    proof = Proof(0.0)
    proof.due(0.0)
    assert proof.due(AGAIN)
    assert not proof.due(AGAIN + 0.1)
    assert proof.late(AGAIN + 0.1), "time stands still since the first"
    proof.came(AGAIN + 0.2)
    assert proof.was_held_up()
    assert not proof.late(AGAIN + 0.3)
    proof.came(AGAIN + 0.4)  # the first, after all
    assert not proof.was_held_up()


def test_what_this_process_takes_for_its_own_work_makes_none_late() -> None:
    proof = Proof(0.0)
    proof.due(0.0)
    proof.worked(3.0)
    assert not proof.late(3.1)
    proof.came(3.1)
    assert not proof.was_held_up()
    proof.worked(3.0)
    assert proof.due(3.1 + EVERY)
    assert proof.late(3.1 + EVERY + LATE + 0.1)
