"""What the scripts store of a message ↔ its values. Pure; must agree with `build` and `read` of the prelude."""

from __future__ import annotations

import struct
from typing import Final

from millgate.errors import NotDecodable
from millgate.frozen import dataclass
from millgate.message import Message, with_record

_HEAD: Final = struct.Struct(">BIdd")
_MORE: Final = struct.Struct(">ddHHH")
_PLAIN: Final = struct.Struct(">5xdd")
_WHOLE: Final = struct.Struct(">5xdd8xdHHH")
_COUNTS: Final = struct.Struct(">III")
_SPAN: Final = 1 << 49


@dataclass(frozen=True, slots=True)
class Row:
    """A stored message; `enqueued` is in ms since 1970 by the server's clock."""

    priority: int
    rank: float
    enqueued: float
    record: bytes
    key: str | None = None
    unique: str | None = None
    result_ttl: float | None = None
    group: str | None = None

    def message(self, name: str, topic: str) -> Message | None:
        """The whole message; None: its record cannot be read."""
        bare = Message(
            id=name,
            topic=topic,
            task="",
            body=b"",
            priority=self.priority,
            key=self.key,
            unique=self.unique,
            result_ttl=self.result_ttl,
            group=self.group,
        )
        try:
            return with_record(bare, self.record)
        except NotDecodable:
            return None


def read(data: bytes) -> Row:
    """A row. Raises NotDecodable for what the scripts would not take either."""
    try:
        flag, _, rank, enqueued = _HEAD.unpack_from(data)
        priority = 9 - int(rank // _SPAN)
        if flag == 0:
            return Row(priority, rank, enqueued, data[_HEAD.size :])
        _, ttl, key, unique, group = _MORE.unpack_from(data, _HEAD.size)
        at = _HEAD.size + _MORE.size
        texts = []
        for size in (key, unique, group):
            texts.append(data[at : at + size].decode() or None)
            at += size
        return Row(
            priority,
            rank,
            enqueued,
            data[at:],
            texts[0],
            texts[1],
            None if ttl < 0 else ttl,
            texts[2],
        )
    except (struct.error, ValueError) as error:
        raise NotDecodable(f"not a row of ours: {error}") from error


def parts(data: bytes) -> tuple[float, float, float | None, str | None, str | None, bytes]:
    """What a claim is made of: rank, enqueued, result's time, key, group, record. For rows that scripts have read."""
    if data[0] == 0:
        rank, enqueued = _PLAIN.unpack_from(data)
        return rank, enqueued, None, None, None, data[21:]
    rank, enqueued, ttl, key, unique, group = _WHOLE.unpack_from(data)
    at = 43 + key
    end = at + unique + group
    return (
        rank,
        enqueued,
        None if ttl < 0 else ttl,
        data[43:at].decode() if key else None,
        data[at + unique : end].decode() if group else None,
        data[end:],
    )


def counts(data: bytes) -> tuple[int, int, int, bytes]:
    """Failures, losses, interruptions and the last failure's text of a row; zeros for one that never came back."""
    if not data:
        return 0, 0, 0, b""
    failures, losses, interruptions = _COUNTS.unpack_from(data)
    return failures, losses, interruptions, data[_COUNTS.size :]
