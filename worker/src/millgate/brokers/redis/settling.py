"""Settlements → the arguments of the scripts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

from millgate.brokers.redis import failures
from millgate.brokers.redis.drafts import drafts
from millgate.message import ClaimRef
from millgate.rules import check_whole, lasting
from millgate.settlement import Ack, Bury, Charge, Later, Settlement

_CHARGES: Final = {Charge.FAILURE: "F", Charge.LOSS: "L", Charge.NOTHING: "N"}
_CALL: Final = 16  # hexadecimal digits of a call's number


def token_of(call: str, name: bytes) -> str:
    """The token of a claim of the message of that id; `call` has 16 hexadecimal digits."""
    return f"{call}{crc32(name):x}"


def read_token(claim: ClaimRef) -> bytes | None:
    """The call of a claim's token; None when it was not made here, or for another id."""
    token = claim.token
    if token[_CALL:] != f"{crc32(claim.id.encode()):x}":
        return None
    return _number(token[:_CALL])


@lru_cache(maxsize=1024)  # the claims of one call share it
def _number(digits: str) -> bytes | None:
    try:
        call = bytes.fromhex(digits)
    except ValueError:
        return None
    return call if len(call) * 2 == _CALL else None


def parted(settlements: Sequence[Settlement], enough: int) -> list[Sequence[Settlement]]:
    """Settlements in order, at most `enough` plain ones at a time; one empty part when there are none."""
    parts: list[Sequence[Settlement]] = []
    start, weight = 0, 0
    for place, settlement in enumerate(settlements):
        more = _weight(settlement)
        if weight + more > enough and place > start:
            parts.append(settlements[start:place])
            start, weight = place, 0
        weight += more
    return [*parts, settlements[start:]]


def _weight(settlement: Settlement) -> int:
    """What a settlement costs the server, a plain acknowledgement being 1."""
    if type(settlement) is not Ack:
        return 2
    return 1 + (settlement.result is not None) + 2 * len(settlement.publish)


def sizes_of(settlements: Sequence[Settlement]) -> list[Any]:
    """Of the messages that follow: each topic, its largest record's bytes, and the id of that message."""
    largest: dict[str, tuple[int, str]] = {}
    for settlement in settlements:
        if isinstance(settlement, Ack):
            for message in settlement.publish:
                size = len(message.record())
                if size > largest.get(message.topic, (-1, ""))[0]:
                    largest[message.topic] = (size, message.id)
    return [part for topic, (size, name) in largest.items() for part in (topic, size, name)]


def settling(settlements: Sequence[Settlement], *, looked_at: bool = False) -> list[Any]:
    """The arguments of settlements in order; acknowledgements without a result travel together. `looked_at`: the
    sizes of messages that follow are no reason to refuse any more.
    Raises InvalidMessage for messages that cannot be stored."""
    arguments: list[Any] = []
    run: bytes | None = None  # the call of the acknowledgements that are being gathered
    start = 0
    gathered: set[str] = set()
    for settlement in settlements:
        claim = settlement.claim
        call = read_token(claim)
        if call is None:
            call = b"\x00" * 8  # nobody's: it is answered as stale, in its place
        if type(settlement) is Ack and settlement.result is None and not settlement.publish:
            if call != run or claim.id in gathered:
                run, start, gathered = call, len(arguments), set()
                arguments += ["A", call, 0]
            arguments[start + 2] += 1
            arguments.append(claim.id)
            gathered.add(claim.id)
        else:
            run = None
            arguments += _single(settlement, call, looked_at)
    return arguments


def _single(settlement: Settlement, call: bytes, looked_at: bool) -> list[Any]:
    name = settlement.claim.id
    if isinstance(settlement, Ack):
        for message in settlement.publish:
            check_whole(message)
        ttl = "" if settlement.result_ttl is None else repr(lasting(float(settlement.result_ttl)))
        kept = ["0", b""] if settlement.result is None else ["1", settlement.result]
        letter = "C" if looked_at else "R"
        return [letter, call, name, *kept, ttl, *drafts(settlement.publish)]
    if isinstance(settlement, Later):
        delay = repr(lasting(float(settlement.delay)))
        failure = failures.pack(settlement.failure)
        return ["D", call, name, delay, _CHARGES[settlement.charge], failure]
    if isinstance(settlement, Bury):
        return ["B", call, name, str(settlement.reason), failures.pack(settlement.failure)]
    return ["X", call, name]
