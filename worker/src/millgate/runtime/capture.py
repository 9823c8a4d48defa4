"""What tasks print: the beginning line by line as it comes, the end when the task ends, the middle only counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Bytes kept at either end of one task's output.
KEPT: Final = 32 * 1024
_LINE: Final = 8 * 1024


class Capture:
    """One child's output. `emit` gets lines without their newline. Bounded, whatever is printed."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._partial = b""
        self._passed = 0
        self._tail = bytearray()
        self._left_out = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Output as it was read."""
        room = KEPT - self._passed
        if room > 0:
            part = bytes(data[:room])
            self._passed += len(part)
            self._lines(part)
            data = data[room:]
        if len(data):
            self._tail += data[-KEPT:]
            self._left_out += max(0, len(data) - KEPT)
            over = len(self._tail) - KEPT
            if over > 0:
                self._left_out += over
                del self._tail[:over]

    def end(self) -> None:
        """The task has ended: write the rest, and begin anew."""
        if self._left_out:
            self._flush()
            self._emit(f"[{self._left_out} bytes left out]")
        if self._tail:
            self._lines(bytes(self._tail))
        self._flush()
        self._passed, self._left_out = 0, 0
        self._tail.clear()

    def _lines(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._say(line)
        while len(self._partial) > _LINE:
            self._say(self._partial[:_LINE])
            self._partial = self._partial[_LINE:]

    def _flush(self) -> None:
        if self._partial:
            self._say(self._partial)
            self._partial = b""

    def _say(self, line: bytes) -> None:
        self._emit(line.decode("utf-8", "replace").rstrip("\r"))
