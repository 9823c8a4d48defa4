"""Which run printed what: a child marks on its output which run prints next, and the supervisor cuts it there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from millgate.frozen import dataclass
from millgate.runtime.wire import MARK_BEGIN, MARK_END, MARK_NAME

_DIGITS: Final = 19
#: What a child writes when another run than the last one prints.
_WORDS: Final = rb"([0-9]{1,%d})( [ -~]{0,%d})?" % (_DIGITS, MARK_NAME)
_MARK: Final = re.compile(MARK_BEGIN + _WORDS + MARK_END)
_BEGUN: Final = re.compile(rb"(?:[0-9]{1,%d}(?: [ -~]{0,%d})?)?" % (_DIGITS, MARK_NAME))
_LONGEST: Final = len(MARK_BEGIN) + _DIGITS + 1 + MARK_NAME + len(MARK_END)


@dataclass(frozen=True, slots=True)
class Past:
    """A run that is over and prints still: a thread that it has left behind, for example."""

    task: str
    id: str
    topic: str
    attempt: int


class Marks:
    """Cuts one child's output, as it is read, at its marks."""

    def __init__(self) -> None:
        #: Whose the part is that `cut` gave last, when its run is over.
        self.past: Past | None = None
        self._number = 0
        self._held = b""  # may be the beginning of a mark

    def cut(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The parts of the output, each with the number of the run that printed it; 0: nobody said which."""
        first, *rest = _MARK.split(self._held + data)
        yield from self._part(first, last=not rest)
        for at in range(0, len(rest), 3):
            self._number, self.past = int(rest[at]), _past(rest[at + 1])
            yield from self._part(rest[at + 2], last=at + 3 == len(rest))

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
    begun, words = text[: len(MARK_BEGIN)], text[len(MARK_BEGIN) :]
    return MARK_BEGIN.startswith(begun) and _BEGUN.fullmatch(words) is not None


def _past(words: bytes | None) -> Past | None:
    if words is None:
        return None
    try:
        task, id_, topic, attempt = map(str, json.loads(words))
        return Past(task, id_, topic, int(attempt))
    except (ValueError, TypeError, RecursionError):  # a task has written what looks like a mark
        return None
