"""Calls and answers as bytes: msgpack, and the bounds of a payload. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgpack

from millgate.errors import InvalidInput, NotDecodable

#: Bytes of one call; a publish that is larger is refused by the client.
CALL_BOUND: Final = 64 * 2**20
#: Bytes of one answer. Only a proved server sends them.
ANSWER_BOUND: Final = 2**30


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
