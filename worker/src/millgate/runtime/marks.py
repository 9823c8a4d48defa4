"""Which run printed what: a child marks on its output which run prints next, and the supervisor cuts it there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from millgate.runtime.wire import MARK_BEGIN, MARK_END

_DIGITS: Final = 19
#: What a child writes when another run than the last one prints.
_MARK: Final = re.compile(MARK_BEGIN + rb"([0-9]{1,%d})" % _DIGITS + MARK_END)
_LONGEST: Final = len(MARK_BEGIN) + _DIGITS + len(MARK_END)


class Marks:
    """Cuts one child's output, as it is read, at its marks."""

    def __init__(self) -> None:
        self._number = 0
        self._held = b""  # may be the beginning of a mark

    def cut(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The parts of the output, each with the number of the run that printed it; 0: nobody said which."""
        first, *rest = _MARK.split(self._held + data)
        yield from self._part(first, last=not rest)
        for at in range(0, len(rest), 2):
            self._number = int(rest[at])
            yield from self._part(rest[at + 1], last=at + 2 == len(rest))

    def rest(self) -> tuple[int, bytes]:
        """What was held back, when no more comes."""
        held, self._held = self._held, b""
        return self._number, held

    def _part(self, text: bytes, *, last: bool) -> Iterator[tuple[int, bytes]]:
        if last:
            at = (
                text.rfind(MARK_BEGIN[:1], -_LONGEST)
                if MARK_BEGIN[:1] in text[-_LONGEST:]
                else len(text)
            )
            if not _may_become_a_mark(text[at:]):
                at = len(text)
            text, self._held = text[:at], text[at:]
        if text:
            yield self._number, text


def _may_become_a_mark(text: bytes) -> bool:
    begun, number = text[: len(MARK_BEGIN)], text[len(MARK_BEGIN) :]
    return (
        MARK_BEGIN.startswith(begun) and (not number or number.isdigit()) and len(text) < _LONGEST
    )
