"""Payloads in a stream of bytes: four bytes of length before each. Pure; a length over the bound is refused before
anything is allocated."""

from __future__ import annotations

from typing import Final

from millgate.brokers.served.frames import FrameTooLarge

#: Bytes of a frame from a peer that has not proved yet that it knows the key.
HELLO_BOUND: Final = 1024
HEADER: Final = 4


def frame(payload: bytes) -> bytes:
    """A payload with its length in front."""
    return len(payload).to_bytes(HEADER, "big") + payload


class Splitter:
    """Cuts a stream of bytes into payloads.

    Its buffer grows by what has arrived, never by what a peer announced.
    """

    __slots__ = ("_buffer", "bound")

    def __init__(self, bound: int) -> None:
        self._buffer = bytearray()
        self.bound = bound

    @property
    def started(self) -> bool:
        """Whether some of the next payload is there."""
        return bool(self._buffer)

    @property
    def whole(self) -> bool:
        """Whether all of the next payload is there."""
        buffer = self._buffer
        return len(buffer) >= HEADER + int.from_bytes(buffer[:HEADER], "big")

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived."""
        self._buffer += data

    def next(self) -> bytes | None:
        """The next whole payload; None: not all of it is there. Raises FrameTooLarge."""
        buffer = self._buffer
        if len(buffer) < HEADER:
            return None
        length = int.from_bytes(buffer[:HEADER], "big")
        if length > self.bound:
            raise FrameTooLarge(f"a frame of {length} bytes; at most {self.bound} are taken")
        end = HEADER + length
        if len(buffer) < end:
            return None
        payload = bytes(buffer[HEADER:end])
        del buffer[:end]
        return payload
