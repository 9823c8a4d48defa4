"""Messages as the bytes of AMQP 0-9-1: written without an object for each frame, and read back the same way. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final

from millgate.frozen import dataclass

_FRAME: Final = struct.Struct(">BHL")  # kind, channel, size; the payload and one byte follow
_END: Final = b"\xce"
_AROUND: Final = _FRAME.size + len(_END)
_METHOD, _HEADER, _BODY = 1, 2, 3  # kinds of frames
_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00\x00"  # to the default exchange, whose name is empty
_CONTENT: Final = struct.Struct(">HHQH")  # class, weight, size of the body, which properties
_ACK: Final = struct.Struct(">HHQB")  # class, method, delivery tag, that one or all up to it
_TAG: Final = struct.Struct(">Q")
_BASIC: Final = 60
#: The properties in their order, each with its length in bytes; None: a text with its length before it.
_PROPERTIES: Final = (
    ("content_type", None), ("content_encoding", None), ("headers", -1), ("delivery_mode", 1), ("priority", 1),
    ("correlation_id", None), ("reply_to", None), ("expiration", None), ("message_id", None), ("timestamp", 8),
    ("type", None), ("user_id", None), ("app_id", None),
)  # fmt: skip
_PERSISTENT: Final = b"\x02"


@dataclass(frozen=True, slots=True)
class Properties:
    """What a message says of itself, as far as anybody here asks; empty: nothing."""

    correlation_id: str = ""
    reply_to: str = ""
    expiration: str = ""
    type: str = ""
    app_id: str = ""

    def pack(self, *, persistent: bool = False) -> bytes:
        """As the end of a content header."""
        flags, values = 0, []
        if persistent:
            flags, values = 1 << 12, [_PERSISTENT]
        for bit, text in (
            (10, self.correlation_id), (9, self.reply_to), (8, self.expiration), (5, self.type), (3, self.app_id),
        ):  # fmt: skip
            if text:
                flags |= 1 << bit
                values.append(_short(text))
        return flags.to_bytes(2, "big") + b"".join(values)


def properties(data: bytes) -> Properties:
    """What `Properties.pack`, or anybody else's program, wrote; of what makes no sense, nothing."""
    found: dict[str, str] = {}
    flags, at = int.from_bytes(data[:2], "big"), 2
    try:
        for bit, (name, size) in enumerate(_PROPERTIES):
            if not flags >> (15 - bit) & 1:
                continue
            if size is None:
                end = at + 1 + data[at]
                found[name] = data[at + 1 : end].decode()
                at = end
            else:
                at += size if size > 0 else 4 + int.from_bytes(data[at : at + 4], "big")
    except (IndexError, UnicodeDecodeError):
        return Properties()
    return Properties(**{name: found[name] for name in Properties.__slots__ if name in found})


def message(
    channel: int, queue: str, body: bytes, said: bytes, *, mandatory: bool, largest: int
) -> bytes:
    """The frames that put a message into a queue. `said` is what `Properties.pack` made, `largest` bytes of a frame."""
    head = _PUBLISH + _short(queue) + (b"\x01" if mandatory else b"\x00")
    parts = [
        _frame(_METHOD, channel, head),
        _frame(_HEADER, channel, _CONTENT.pack(_BASIC, 0, len(body), 0)[:-2] + said),
    ]
    room = largest - _AROUND
    parts += [_frame(_BODY, channel, body[at : at + room]) for at in range(0, len(body), room)]
    return b"".join(parts)


def acknowledgement(channel: int, tag: int) -> bytes:
    """The frame that acknowledges all deliveries up to one."""
    return _frame(_METHOD, channel, _ACK.pack(_BASIC, 80, tag, 1))


class Kind(Enum):
    """What a server sends that is read here."""

    DELIVERED = b"\x00\x3c\x00\x3c"
    RETURNED = b"\x00\x3c\x00\x32"
    CONFIRMED = b"\x00\x3c\x00\x50"
    REFUSED = b"\x00\x3c\x00\x78"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One thing that came. `tag` is the delivery's, or the last one that a confirmation is for."""

    kind: Kind
    tag: int
    said: bytes = b""
    body: bytes = b""

    @property
    def properties(self) -> Properties:
        """What the message says of itself."""
        return properties(self.said)


_KINDS: Final = {kind.value: kind for kind in Kind}
Take = Callable[[Arrival], None]


class Inbox:
    """What comes on one channel: whole messages and confirmations are handed to `take`."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._kind: Kind | None = None  # of the message that is not complete
        self._tag = self._left = 0
        self._said = b""
        self._parts: list[bytes] = []

    @property
    def begun(self) -> bool:
        """Whether a part of a message has come."""
        return self._kind is not None

    def feed(self, kind: int, payload: bytes) -> bool:
        """Whether this frame is one of those."""
        if kind == _METHOD:
            return self._method(payload)
        if self._kind is None:
            return False
        if kind == _HEADER:
            self._left = _CONTENT.unpack_from(payload)[2]
            self._said = payload[_CONTENT.size - 2 :]
        elif kind == _BODY:
            self._parts.append(payload)
            self._left -= len(payload)
        else:
            return False
        if self._left <= 0:
            arrival = Arrival(self._kind, self._tag, self._said, b"".join(self._parts))
            self._kind, self._parts = None, []
            self._take(arrival)
        return True

    def _method(self, payload: bytes) -> bool:
        kind = _KINDS.get(payload[:4])
        if kind is None:
            return False
        if kind is Kind.RETURNED:
            self._kind, self._tag = kind, 0
        elif kind is Kind.DELIVERED:
            self._kind, self._tag = kind, _TAG.unpack_from(payload, 5 + payload[4])[0]
        else:
            self._take(Arrival(kind, _TAG.unpack_from(payload, 4)[0]))
        return True


class Splitter:
    """Splits what a server sends into frames: some go to an inbox of their channel, `rest` gets the others whole."""

    def __init__(self, rest: Callable[[bytes], None], begun: bytes = b"") -> None:
        """`begun`: what has come already of the next frame."""
        self._rest = rest
        self._inboxes: dict[int, Inbox] = {}
        self._begun = begun

    def open(self, channel: int, take: Take) -> None:
        """Take what comes on a channel."""
        self._inboxes[channel] = Inbox(take)

    def begun(self, channel: int) -> bool:
        """Whether a part of a message has come on a channel."""
        return self._inboxes[channel].begun

    def feed(self, data: bytes) -> None:
        """Go on with what has come."""
        data, self._begun = self._begun + data, b""
        at, length = 0, len(data)
        try:
            while length - at >= _AROUND:
                kind, channel, size = _FRAME.unpack_from(data, at)
                end = at + _AROUND + size
                if end > length:
                    break
                begin, at = at, end
                inbox = self._inboxes.get(channel)
                if inbox is None or not inbox.feed(kind, data[begin + _FRAME.size : end - 1]):
                    self._rest(data[begin:end])
        finally:
            self._begun = data[at:]


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + _END


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data
