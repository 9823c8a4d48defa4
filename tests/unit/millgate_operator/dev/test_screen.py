"""What is printed: redrawn in place on a terminal, plain and seldom elsewhere."""

from __future__ import annotations

import errno
import io

import pytest

from millgate.cli.console import Console, OutputLost
from millgate_operator.dev.screen import Screen, bar
from support.clock import FakeClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_block_is_replaced_and_lines_stay_above() -> None:
    out = Terminal()
    screen = Screen(Console(out=out, environ={}, clock=FakeClock()))
    screen.block(["one", "two"])
    screen.raw("happened")
    screen.block(["three"])
    screen.end()
    text = out.getvalue()
    assert text.index("one") < text.index("happened") < text.index("three")
    assert text.count("\x1b[2A") == 2  # erased for the line, and for the next block
    assert text.endswith("\x1b[1A\r\x1b[J")


def test_elsewhere_a_line_is_printed_when_something_changed_and_not_too_often() -> None:
    out, clock = io.StringIO(), FakeClock()
    screen = Screen(Console(out=out, environ={}, clock=clock))
    for number in range(100):
        screen.block([f"done {number}", " and  more"])
        clock.advance(0.25)
    lines = out.getvalue().splitlines()
    assert 4 <= len(lines) <= 6
    assert lines[0].endswith("done 0; and more")
    assert "\x1b" not in out.getvalue()
    screen.block(["done 99", "and more"])
    clock.advance(100)
    before = out.getvalue()
    screen.block(["done 99", "and more"])
    screen.block(["done 99", "and more"])
    assert out.getvalue().count("done 99") - before.count("done 99") <= 1


def test_elsewhere_only_the_queues_that_have_something_new_are_named_again() -> None:
    out, clock = io.StringIO(), FakeClock()
    screen = Screen(Console(out=out, environ={}, clock=clock))
    for number in (0, 1, 1, 2):
        screen.block(
            ["mail: 1 worker", f"  send  {number} done", "video: 2 workers", "  cut  0 done"]
        )
        clock.advance(6.0)
    assert [line.partition(" ")[2] for line in out.getvalue().splitlines()] == [
        "mail: 1 worker; send 0 done",
        "video: 2 workers; cut 0 done",
        "mail: 1 worker; send 1 done",
        "mail: 1 worker; send 2 done",
    ]


def test_a_bar_is_full_only_when_all_is_done() -> None:
    assert bar(0, 10).count("█") == 0
    assert bar(10, 10).count("░") == 0
    assert bar(9, 10).count("░") > 0
    assert bar(0, 0).count("█") == 0


def test_a_line_that_would_wrap_is_cut_and_an_unchanged_block_is_left_alone() -> None:
    out = Terminal()
    screen = Screen(Console(out=out, environ={}, clock=FakeClock()), columns=lambda: 30)
    screen.block(["x" * 100])
    assert out.getvalue() == "x" * 29 + "\n"
    screen.block(["x" * 100])
    assert out.getvalue() == "x" * 29 + "\n"


class Full(io.StringIO):
    """A stream whose disk is full, or whose terminal is gone, once it is told so."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.full = terminal, False

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


@pytest.mark.parametrize("terminal", [True, False])
def test_output_that_cannot_be_written_is_an_error_of_its_own(terminal: bool) -> None:
    out = Full(terminal)
    screen = Screen(Console(out=out, environ={}, clock=FakeClock()))
    screen.block(["one"])
    out.full = True
    with pytest.raises(OutputLost, match="No space left on device"):
        screen.say("happened")
    with pytest.raises(OutputLost, match="No space left on device"):
        screen.raw("text")
