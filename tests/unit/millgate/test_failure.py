"""Whatever is raised becomes text that any store keeps, and nothing worse."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.failure import MAX_MESSAGE, MAX_TRACEBACK, clean, describe, name_of
from millgate.outcome import Failure


def raised(error: BaseException) -> Failure:
    with pytest.raises(type(error)) as caught:
        raise error
    return describe(caught.value)


class TwoArguments(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class NoText(Exception):
    def __str__(self) -> str:
        raise OSError("no text")


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)

    __reduce__ = __str__


class NotText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307 -- hostile on purpose


def test_it_has_the_class_the_message_and_the_traceback() -> None:
    failure = raised(ValueError("no"))
    assert (failure.error, failure.message) == ("ValueError", "no")
    assert failure.traceback.startswith("Traceback")
    assert "raise error" in failure.traceback
    assert failure.traceback.endswith("ValueError: no")


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (TwoArguments(1, 2), "TwoArguments", "1 and 2"),
        (NoText(), "NoText", "<its __str__ raised OSError>"),
        (Exits(), "Exits", "<its __str__ raised SystemExit>"),
        (NotText(), "NotText", "<its __str__ raised TypeError>"),
        (SystemExit(3), "SystemExit", "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt", ""),
        (
            BaseExceptionGroup("all", [ValueError("a"), SystemExit(1)]),
            "BaseExceptionGroup",
            "all (2 sub-exceptions)",
        ),
        (MemoryError(), "MemoryError", ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_hostile_exceptions_are_described(error: BaseException, name: str, message: str) -> None:
    failure = raised(error)
    assert failure.error.endswith(name)
    assert failure.message == message


def test_a_class_made_in_a_function_is_named() -> None:
    class Inner(Exception):
        pass

    assert raised(Inner()).error.endswith("test_a_class_made_in_a_function_is_named.<locals>.Inner")


@pytest.mark.parametrize("bad", ["\x00", "\ud800", "\x1b[31m", "\x07", "\x9b", "\r"])
def test_what_stores_refuse_and_terminals_obey_is_escaped(bad: str) -> None:
    failure = raised(ValueError(f"a{bad}b"))
    for text in (failure.message, failure.traceback):
        assert bad not in text
        text.encode("utf-8")
    assert failure.message.startswith("a\\x")
    assert failure.message.endswith("b")


def test_newlines_and_tabs_stay() -> None:
    assert raised(ValueError("a\n\tb")).message == "a\n\tb"


def test_a_huge_message_is_cut() -> None:
    failure = raised(ValueError("x" * 20_000_000))
    assert len(failure.message) == MAX_MESSAGE
    assert len(failure.traceback) < MAX_TRACEBACK
    assert "raise error" in failure.traceback


def test_ten_thousand_notes_are_cut_from_the_front() -> None:
    error = ValueError("no")
    error.__notes__ = [f"note {number}" for number in range(10_000)]
    failure = raised(error)
    assert len(failure.traceback) <= MAX_TRACEBACK
    assert failure.traceback.endswith("note 9999")


def test_a_deep_recursion_keeps_the_innermost_frames() -> None:
    def deeper(level: int) -> None:
        deeper(level + 1)

    try:
        deeper(0)
    except RecursionError as error:
        failure = describe(error)
    assert failure.error == "RecursionError"
    assert "deeper(level + 1)" in failure.traceback
    assert len(failure.traceback) <= MAX_TRACEBACK


def test_a_cause_is_kept() -> None:
    error = ValueError("no")
    error.__cause__ = OSError("disk")
    assert "OSError: disk" in raised(error).traceback


def test_a_metaclass_cannot_hide_a_class() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError("mine")

    class Strange(metaclass=Meta):
        pass

    assert name_of(Strange) == "<unnamed class>"


def test_cut_text_says_so() -> None:
    assert clean("abcdef", 4) == "abc…"
