"""Calls as messages: which line of which client they come by, their parts put together, answers taken apart. Pure.

A line carries one call at a time. Its name is the address for answers, which the server made and nobody can guess,
and a number of the client's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from millgate.brokers.rabbitmq.pieces import cut
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.frames import CALL_BOUND, FrameTooLarge
from millgate.errors import NotDecodable
from millgate.frozen import dataclass

#: Version of frames, verbs and values; both sides must have the same.
PROTOCOL: Final = "millgate-1"
#: What the server's own addresses for answers begin with: nothing else is answered, or answers could be sent anywhere.
REPLY_TO: Final = "amq.rabbitmq.reply-to"
_MORE: Final = 1  # in a body's first byte: another part follows
_CONTINUES: Final = 2  # in a body's first byte: another part came before
_LONGEST: Final = 64  # characters of a client's id
_SILENT: Final = 120.0  # seconds after which a line that nothing comes by is forgotten
#: Bytes kept of calls that are not complete, of all lines together.
_UNFINISHED: Final = 4 * CALL_BOUND


def split(payload: bytes) -> Iterator[bytes]:
    """The bodies of the messages that carry a payload, in order."""
    for number, (piece, more) in enumerate(cut(payload)):
        flags = (_MORE if more else 0) | (_CONTINUES if number else 0)
        yield bytes([flags]) + piece


class Joiner:
    """Puts a payload together again. It never keeps more than its bound."""

    __slots__ = ("_bound", "_parts", "size")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._parts: list[bytes] = []
        self.size = 0  # bytes kept

    def feed(self, body: bytes) -> bytes | None:
        """A payload, when this body is its last part. Raises NotDecodable for a part without those before it,
        FrameTooLarge; then it has nothing."""
        flags = body[0] if body else _CONTINUES
        parts, size = self._parts, self.size
        self._parts, self.size = [], 0
        if not flags & _CONTINUES:
            parts, size = [], 0
        elif not parts or not body:
            raise NotDecodable("a part of a call whose beginning is not there")
        parts.append(body[1:])
        size += len(body) - 1
        if size > self._bound:
            raise FrameTooLarge(f"more than {self._bound} bytes in one payload")
        if not flags & _MORE:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts, self.size = parts, size
        return None


@dataclass(frozen=True, slots=True)
class Line:
    """Where a call came from and its answer goes."""

    reply_to: str
    number: str


class Lines:
    """All lines that a brokerd has heard of lately."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._heard: dict[Line, float] = {}  # longest silent first
        self._joiners: dict[Line, Joiner] = {}

    def take(
        self, now: float, line: Line, properties: Any, body: bytes
    ) -> tuple[Caller, bytes] | None:
        """The call that a message completes, and whose it is. Raises NotDecodable for what is no part of a call."""
        if properties.type != PROTOCOL:
            raise NotDecodable(f"it is of type {properties.type!r}, not {PROTOCOL}")
        client = properties.app_id or ""
        # The driver leaves as bytes what is no UTF-8.
        if not all(isinstance(part, str) for part in (client, line.reply_to, line.number)) or not (
            line.reply_to.startswith(REPLY_TO) and 0 < len(client) <= _LONGEST
        ):
            raise NotDecodable("it does not say who calls, or where the answer goes")
        self._heard.pop(line, None)
        self._heard[line] = now
        payload = self._joiners.setdefault(line, Joiner(CALL_BOUND)).feed(body)
        if payload is None:
            self._bound_unfinished()
            return None
        del self._joiners[line]
        return Caller(client, self._queue), payload

    def _bound_unfinished(self) -> None:
        """Let go of the calls that were begun first: they are sent again, if anybody waits."""
        size = sum(joiner.size for joiner in self._joiners.values())
        while size > _UNFINISHED:
            size -= self._joiners.pop(next(iter(self._joiners))).size

    def silent(self, now: float) -> list[Line]:
        """The lines to forget; they are forgotten."""
        found = []
        for line, heard in self._heard.items():
            if heard > now - _SILENT:
                break
            found.append(line)
        for line in found:
            del self._heard[line]
            self._joiners.pop(line, None)
        return found
