"""Settlements → the columns of the server's functions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any, Final
from zlib import crc32

from millgate.brokers.base import MAX_BATCH
from millgate.brokers.postgres import failures
from millgate.brokers.postgres.arrays import (
    Bigints,
    Blobs,
    Floats,
    Ints,
    Smallints,
    Texts,
    column,
)
from millgate.brokers.postgres.drafts import following
from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.message import ClaimRef, Message
from millgate.rules import check_whole, lasting
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement

_CHARGES: Final = {Charge.FAILURE: 0, Charge.LOSS: 1, Charge.NOTHING: 2}
_LATER, _BURY, _DROP = 1, 2, 3
_MOST: Final = 1 << 63
#: Parameters of the settling functions: 4 columns of acks, 8 of the others, 14 of messages that follow.
NOTHING: Final[tuple[Any, ...]] = (None,) * 26


@dataclass(slots=True)
class _Acks:
    seqs: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    bodies: list[bytes | None] = field(default_factory=list)
    ttls: list[float | None] = field(default_factory=list)
    publish: list[Message] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Settling:
    """What one call sends; `order` has the seq (None: no token of ours) and the id of each settlement."""

    columns: tuple[Any, ...]
    order: Sequence[tuple[int | None, str]]
    gave_back: bool

    def stale(self, done: Collection[int]) -> tuple[str, ...]:
        """The ids whose settlement was not carried out, in order."""
        left = set(done)
        names = []
        for seq, name in self.order:
            if seq is None or seq not in left:
                names.append(name)
            else:
                left.discard(seq)
        return tuple(names)


def token_of(seq: int, call: int, name: str) -> str:
    """The token of a claim of the message of that id."""
    return f"{seq:x}.{call:x}.{crc32(name.encode()):x}"


def read_token(claim: ClaimRef) -> tuple[int, int] | None:
    """(seq, call) of a claim's token; None when it was not made here, or for another id."""
    parts = claim.token.split(".")
    try:
        if len(parts) != 3 or int(parts[2], 16) != crc32(claim.id.encode()):
            return None
        seq, call = int(parts[0], 16), int(parts[1], 16)
    except ValueError:
        return None
    return (seq, call) if 0 <= seq < _MOST and 0 <= call < _MOST else None


def settling(settlements: Sequence[Settlement]) -> Settling:
    """The columns of settlements. Raises InvalidInput, and InvalidMessage for messages that cannot be stored."""
    if len(settlements) > MAX_BATCH:
        raise InvalidInput(f"{len(settlements)} settlements in one call; send at most {MAX_BATCH}")
    acks, others, turns = _Acks(), [], []
    order: list[tuple[int | None, str]] = []
    seen: set[tuple[int, int]] = set()
    for settlement in settlements:
        named = read_token(settlement.claim)
        order.append((named[0] if named else None, settlement.claim.id))
        if named is None or named in seen:
            continue
        seen.add(named)
        if type(settlement) is Ack:
            _add_ack(acks, settlement, *named)
        else:
            others.append((*named, *_other(settlement)))
            turns.append(len(acks.seqs))
    mixed = Ints(turns) if turns and turns[0] < len(acks.seqs) else None
    columns = (*_ack_columns(acks), *_other_columns(others), mixed, *_following(acks))
    return Settling(columns, order, bool(others))


def _add_ack(acks: _Acks, ack: Ack, seq: int, token: int) -> None:
    acks.seqs.append(seq)
    acks.tokens.append(token)
    acks.bodies.append(ack.result)
    acks.ttls.append(None if ack.result_ttl is None else lasting(ack.result_ttl))
    for message in ack.publish:
        check_whole(message)
        acks.publish.append(message)
        acks.parents.append(seq)


def _other(settlement: Settlement) -> tuple[int, float, int, bytes | None, str | None]:
    if isinstance(settlement, Later):
        charge = _CHARGES[settlement.charge]
        delay = lasting(settlement.delay)
        return _LATER, delay, charge, failures.pack(settlement.failure), None
    if isinstance(settlement, Bury):
        return _BURY, 0.0, 0, failures.pack(settlement.failure), str(settlement.reason)
    assert isinstance(settlement, Drop), "acks are elsewhere"
    return _DROP, 0.0, 0, None, None


def _ack_columns(acks: _Acks) -> tuple[Any, ...]:
    if not acks.seqs:
        return NOTHING[:4]
    return (
        Bigints(acks.seqs),
        Bigints(acks.tokens),
        column(Blobs, acks.bodies),
        column(Floats, acks.ttls),
    )


def _other_columns(others: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    if not others:
        return NOTHING[:7]
    kinds = (Bigints, Bigints, Smallints, Floats, Smallints, Blobs, Texts)
    return tuple(
        kind(values) for kind, values in zip(kinds, zip(*others, strict=True), strict=True)
    )


def _following(acks: _Acks) -> tuple[Any, ...]:
    if not acks.publish:
        return NOTHING[:14]
    return following(acks.publish, acks.parents)
