"""What a person sees of a run: lines that stay, and below them a block that is redrawn, on a terminal only."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Final

from millgate.cli.console import Console
from millgate.cli.output import Table

_UP: Final = "\x1b[{}A"
_CLEAR_BELOW: Final = "\x1b[J"
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
#: Elsewhere than on a terminal, the block is printed as one line at most this often.
_PLAIN_EVERY: Final = 5.0
_BAR: Final = 24


def _columns() -> int:
    return shutil.get_terminal_size().columns


class Screen:
    """Prints to the console; `block` is redrawn in place; without a terminal, what is new in it is summed up."""

    def __init__(self, console: Console, columns: Callable[[], int] = _columns) -> None:
        """`columns` answers how wide the terminal is now: a line that wraps could not be taken back."""
        self._console = console
        self._columns = columns
        self._drawn = 0
        self._block: Sequence[str] = ()
        self._said: Sequence[str] = ()  # what was printed last where there is no terminal, and when
        self._said_at = float("-inf")

    @property
    def wide(self) -> bool:
        """Whether bars make sense: somebody watches."""
        return self._console.terminal

    def table(self, table: Table) -> str:
        """A table's text, coloured where colours are wanted."""
        return table.render(self._console.colours)

    def say(self, text: str) -> None:
        """A line that stays: something happened."""
        stamp = self._stamp()
        self._above(f"{_DIM}{stamp}{_PLAIN} {text}" if self._console.colours else f"{stamp} {text}")

    def raw(self, text: str) -> None:
        """A line that stays, as it is."""
        self._above(text)

    def block(self, lines: Sequence[str]) -> None:
        """How things stand; the previous block is replaced."""
        if self._console.terminal:
            if tuple(lines) != self._block:
                self._block = tuple(lines)
                self._redraw()
            return
        now = self._console.clock.monotonic()
        if now - self._said_at < _PLAIN_EVERY:
            return
        said, self._said = self._said, _summed_up(lines)
        for line in self._said:
            if line not in said:  # where several queues are, most have nothing new
                self._said_at = now
                self._print(f"{self._stamp()} {line}")

    def end(self) -> None:
        """Take the block away: what follows is final."""
        self._block = ()
        if self._console.terminal:
            self._redraw()

    def _above(self, text: str) -> None:
        if self._console.terminal:
            self._erase()
            self._print(text)
            self._redraw()
        else:
            self._print(text)

    def _redraw(self) -> None:
        self._erase()
        width = max(20, self._columns() - 1)
        for line in self._block:
            self._print(line[:width])
        self._drawn = len(self._block)

    def _erase(self) -> None:
        if self._drawn:
            self._console.print(_UP.format(self._drawn) + "\r" + _CLEAR_BELOW, end="")
            self._drawn = 0

    def _print(self, text: str) -> None:
        self._console.print(text)

    def _stamp(self) -> str:
        seconds = int(self._console.clock.now()) % 86400
        return f"{seconds // 3600:02d}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"


def _summed_up(lines: Sequence[str]) -> list[str]:
    """One line for each that begins at the margin, with those that are indented below it."""
    found: list[str] = []
    for line in lines:
        text = " ".join(line.split())
        if line[:1] == " " and found:
            found[-1] += f"; {text}"
        else:
            found.append(text)
    return found


def bar(done: int, total: int) -> str:
    """How much of a whole is done, as a bar of fixed width."""
    filled = 0 if total <= 0 else min(_BAR, done * _BAR // total)
    return "█" * filled + "░" * (_BAR - filled)
