"""Frames: four bytes of length, then msgpack. Pure; a length over the bound is refused before anything is allocated."""

from __future__ import annotations

from typing import Any, Final

import msgpack

from millgate.errors import InvalidInput, NotDecodable

#: Bytes of a frame from a peer that has not proved yet that it knows the key.
HELLO_BOUND: Final = 1024
#: Bytes of one call; a publish that is larger is refused by the client.
CALL_BOUND: Final = 64 * 2**20
#: Bytes of one answer. Only a proved server sends them.
ANSWER_BOUND: Final = 2**30
HEADER: Final = 4


class FrameTooLarge(NotDecodable):
    """The peer announced more bytes than a frame may have."""


def pack(value: Any) -> bytes:
    """Plain values as bytes. Raises InvalidInput for what msgpack cannot carry."""
    try:
        return bytes(msgpack.packb(value, use_bin_type=True))
    except UnicodeEncodeError:
        # The usual case stays on the fast path; a lone surrogate in a name or an error text takes this one.
        return bytes(msgpack.packb(value, use_bin_type=True, unicode_errors="surrogatepass"))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"cannot be sent to the broker: {error}") from error


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """The value that `pack` wrote. Raises NotDecodable."""
    try:
        return msgpack.unpackb(data, raw=False, unicode_errors="surrogatepass")
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise NotDecodable(f"not a frame of Millgate: {error}") from error


def pack_state(value: Any) -> bytes:
    """Plain values of any size as bytes, for a snapshot."""
    return bytes(msgpack.packb(value, use_bin_type=True, unicode_errors="surrogatepass"))


def unpack_state(data: bytes) -> Any:
    """The value that `pack_state` wrote. Raises NotDecodable."""
    try:
        return msgpack.unpackb(
            data, raw=False, strict_map_key=False, unicode_errors="surrogatepass"
        )
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise NotDecodable(f"not a snapshot of Millgate: {error}") from error


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
