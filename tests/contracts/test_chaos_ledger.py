"""The judge of chaotic runs finds what is wrong: a judge that never does would prove nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ledger() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "ledger.py"
    spec = importlib.util.spec_from_file_location("benchmarks_ledger", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def judge(
    ledger: Any, text: str, accepted: list[str], deaths: dict[int, float] | None = None
) -> Any:
    return ledger.judge(accepted, [], ledger.read(text.splitlines()), deaths or {})


def test_a_task_that_ran_to_its_end_is_not_lost(ledger: Any) -> None:
    verdict = judge(ledger, "s a 1 1.0\ne a 1 2.0\n", ["a"])
    assert (verdict.lost, verdict.beside, verdict.runs) == ((), (), 1)


def test_a_task_that_never_ended_is_lost_unless_it_was_buried(ledger: Any) -> None:
    text = "s a 1 1.0\n"
    assert judge(ledger, text, ["a", "b"]).lost == ("a", "b")
    assert ledger.judge(["a"], ["a"], ledger.read(text.splitlines()), {}).lost == ()


def test_a_second_run_before_the_first_one_ended_is_found(ledger: Any) -> None:
    text = "s a 1 1.0\ns a 2 1.5\ne a 1 2.0\ne a 2 2.5\n"
    assert judge(ledger, text, ["a"]).beside == ("a",)


def test_a_second_run_after_the_first_ones_death_is_right(ledger: Any) -> None:
    text = "s a 1 1.0\ns a 2 5.0\ne a 2 6.0\n"
    assert judge(ledger, text, ["a"], {1: 4.0}).beside == ()
    assert judge(ledger, text, ["a"], {1: 5.5}).beside == ("a",)
    assert judge(ledger, text, ["a"]).beside == ("a",)  # nobody saw it die


def test_a_repeat_after_the_end_is_at_least_once_and_no_fault(ledger: Any) -> None:
    text = "s a 1 1.0\ne a 1 2.0\ns a 1 3.0\ne a 1 4.0\n"
    verdict = judge(ledger, text, ["a"])
    assert (verdict.beside, verdict.repeated) == ((), 1)


def test_a_torn_last_line_is_passed_over(ledger: Any) -> None:
    assert judge(ledger, "s a 1 1.0\ne a 1 2.0\ns b", ["a"]).lost == ()
