"""Settlements: what a worker says of its claims, carried out in order; a stale token changes nothing and is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millgate.brokers.base import MAX_BATCH
from millgate.brokers.core import finish, publish
from millgate.brokers.core.place import give_back
from millgate.brokers.core.row import LEASED, Row
from millgate.brokers.core.store import Store
from millgate.errors import InvalidInput
from millgate.rules import lasting
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement


def settle(store: Store, now: float, settlements: Sequence[Settlement]) -> tuple[str, ...]:
    """Carry out settlements; the ids whose token was stale. Raises InvalidMessage, nothing done, when a message that
    an Ack publishes cannot be stored."""
    if len(settlements) > MAX_BATCH:
        raise InvalidInput(f"{len(settlements)} settlements in one call; send at most {MAX_BATCH}")
    for settlement in settlements:
        if type(settlement) is Ack and settlement.publish:
            for message in settlement.publish:
                publish.checked(store, message)
    rows, stale = store.rows, []
    for settlement in settlements:
        claim = settlement.claim
        row = rows.get(claim.id)
        if row is None or row.token != claim.token or row.where != LEASED:
            stale.append(claim.id)
            continue
        _CARRY_OUT[type(settlement)](store, now, row, settlement)
    return tuple(stale)


def _later(store: Store, now: float, row: Row, later: Later) -> None:
    if later.charge is Charge.FAILURE:
        row.failures += 1
    elif later.charge is Charge.LOSS:
        row.losses += 1
    else:
        row.interruptions += 1
    if later.failure is not None:
        row.failure = later.failure
    if row.cancelled:
        finish.cancelled(store, now, row)
    else:
        give_back(store, row, now + lasting(later.delay), now)


def _bury(store: Store, now: float, row: Row, bury: Bury) -> None:
    if bury.failure is not None:
        row.failure = bury.failure
    row.failures += 1
    if row.cancelled:
        finish.cancelled(store, now, row)
    else:
        finish.bury(store, now, row, bury.reason)


def _drop(store: Store, now: float, row: Row, _drop: Drop) -> None:
    finish.cancelled(store, now, row)


_CARRY_OUT: dict[type[Settlement], Callable[[Store, float, Row, Any], None]] = {
    Ack: finish.succeeded,
    Later: _later,
    Bury: _bury,
    Drop: _drop,
}
