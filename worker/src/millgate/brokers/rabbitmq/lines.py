"""Calls as messages: which line of which client they come by, their parts put together, answers taken apart. Pure.

A line carries one call at a time. Its name is the address for answers, which the server made and nobody can guess,
and a number of the client's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from millgate.brokers.served.caller import Caller
from millgate.brokers.served.frames import CALL_BOUND, FrameTooLarge
from millgate.errors import NotDecodable

#: Version of frames, verbs and values; both sides must have the same.
PROTOCOL: Final = "millgate-1"
#: What the server's own addresses for answers begin with: nothing else is answered, or answers could be sent anywhere.
REPLY_TO: Final = "amq.rabbitmq.reply-to"
#: Bytes of a payload in one message; servers take 16 MiB at least.
LARGEST: Final = 4 * 2**20
_MORE: Final = b"\x01"
_LAST: Final = b"\x00"
_LONGEST: Final = 64  # characters of a client's id
_SILENT: Final = 120.0  # seconds after which a line that nothing comes by is forgotten


def split(payload: bytes) -> Iterator[bytes]:
    """The bodies of the messages that carry a payload, in order."""
    last = max(0, (len(payload) - 1) // LARGEST)
    for number in range(last):
        yield _MORE + payload[number * LARGEST : (number + 1) * LARGEST]
    yield _LAST + payload[last * LARGEST :]


class Joiner:
    """Puts a payload together again. It never keeps more than its bound."""

    __slots__ = ("_bound", "_parts", "_size")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, body: bytes) -> bytes | None:
        """A payload, when this body is its last part. Raises FrameTooLarge, and begins anew."""
        self._parts.append(body[1:])
        self._size += len(body) - 1
        if self._size > self._bound:
            self._parts, self._size = [], 0
            raise FrameTooLarge(f"more than {self._bound} bytes in one payload")
        if body[:1] != _LAST:
            return None
        payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return payload


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
        if not line.reply_to.startswith(REPLY_TO) or not 0 < len(client) <= _LONGEST:
            raise NotDecodable("it does not say who calls, or where the answer goes")
        self._heard.pop(line, None)
        self._heard[line] = now
        payload = self._joiners.setdefault(line, Joiner(CALL_BOUND)).feed(body)
        if payload is None:
            return None
        del self._joiners[line]
        return Caller(client, self._queue), payload

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
