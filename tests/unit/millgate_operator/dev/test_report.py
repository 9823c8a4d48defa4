"""The tables at the end of a run."""

from __future__ import annotations

from millgate.brokers.base import DeadLetter
from millgate.outcome import Failure
from millgate_operator.dev.report import letters_table


def test_a_long_failure_is_cut_with_a_mark() -> None:
    failure = Failure("KeyError", "x" * 100)
    letter = DeadLetter("1", "mail", "Failed", 0.0, message=None, failure=failure)
    [row] = letters_table([letter]).rows
    assert row[3] == "KeyError: " + "x" * 69 + "…"
