"""The judge of chaotic runs finds what is wrong: a judge that never does would prove nothing."""

from __future__ import annotations

from support import judge as ledger


def judge(text: str, accepted: list[str], deaths: dict[int, float] | None = None) -> ledger.Verdict:
    return ledger.judge(accepted, [], ledger.read(text.splitlines()), deaths or {})


def test_a_task_that_ran_to_its_end_is_not_lost() -> None:
    verdict = judge("s a 1 1.0\ne a 1 2.0\n", ["a"])
    assert (verdict.lost, verdict.beside, verdict.runs) == ((), (), 1)


def test_a_task_that_never_ended_is_lost_unless_it_was_buried() -> None:
    text = "s a 1 1.0\n"
    assert judge(text, ["a", "b"]).lost == ("a", "b")
    assert ledger.judge(["a"], ["a"], ledger.read(text.splitlines()), {}).lost == ()


def test_a_second_run_before_the_first_one_ended_is_found() -> None:
    text = "s a 1 1.0\ns a 2 1.5\ne a 1 2.0\ne a 2 2.5\n"
    assert judge(text, ["a"]).beside == ("a",)


def test_a_second_run_after_the_first_ones_death_is_right() -> None:
    text = "s a 1 1.0\ns a 2 5.0\ne a 2 6.0\n"
    assert judge(text, ["a"], {1: 4.0}).beside == ()
    assert judge(text, ["a"], {1: 5.5}).beside == ("a",)
    assert judge(text, ["a"]).beside == ("a",)  # nobody saw it die


def test_a_repeat_after_the_end_is_at_least_once_and_no_fault() -> None:
    text = "s a 1 1.0\ne a 1 2.0\ns a 1 3.0\ne a 1 4.0\n"
    verdict = judge(text, ["a"])
    assert (verdict.beside, verdict.repeated) == ((), 1)


def test_a_torn_last_line_is_passed_over() -> None:
    assert judge("s a 1 1.0\ne a 1 2.0\ns b", ["a"]).lost == ()
