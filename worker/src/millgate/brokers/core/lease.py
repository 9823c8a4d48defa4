"""Leases: who holds what until when, renewal, and what becomes of a lease that lapsed."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.base import Extended
from millgate.brokers.core import finish
from millgate.brokers.core.place import give_back
from millgate.brokers.core.registry import alive
from millgate.brokers.core.row import LEASED, Row, Span
from millgate.brokers.core.store import Store
from millgate.brokers.core.worker import Worker
from millgate.fleet import Beat, WorkerRef, WorkerState
from millgate.message import ClaimRef
from millgate.outcome import Failure, Reason


def span_of(store: Store, length: float) -> Span:
    """The leases of that length; lengths that nobody uses any more are dropped here."""
    span = store.spans.get(length)
    if span is None:
        for old in [old for old, leases in store.spans.items() if not leases.rows]:
            del store.spans[old]
        span = store.spans[length] = Span(length)
    return span


def grant(store: Store, row: Row, span: Span, worker: Worker, until: float) -> None:
    """Hand a row to a worker. Counters of topic and queue are the caller's, once per batch."""
    store.serial += 1
    row.token = f"{store.salt}{store.serial:x}"
    row.where = LEASED
    row.until = until
    row.worker = worker
    row.span = span
    span.rows[row.id] = row


def held(store: Store, claim: ClaimRef) -> Row | None:
    """The row that a claim still holds; None: its token is stale."""
    row = store.rows.get(claim.id)
    if row is None or row.token != claim.token or row.where != LEASED:
        return None
    return row


def extend(
    store: Store, now: float, ref: WorkerRef, claims: Sequence[ClaimRef], beat: Beat
) -> Extended:
    """Renew leases, each by its topic's length, and the worker's row."""
    worker = alive(store, now, ref)
    if worker is not None:
        worker.beat = beat
    lost, cancelled = [], []
    for claim in claims:
        row = held(store, claim)
        if row is None:
            lost.append(claim.id)
            continue
        renew(store, now, row)
        if row.cancelled:
            cancelled.append(claim.id)
    state = worker.state(now) if worker is not None else WorkerState.UNKNOWN
    return Extended(tuple(lost), tuple(cancelled), state, store.config.revision)


def renew(store: Store, now: float, row: Row) -> None:
    """Count the lease anew from now."""
    if row.span is not None:
        del row.span.rows[row.id]
    row.span = span_of(store, row.topic.policy.lease)
    row.until = now + row.span.length
    row.span.rows[row.id] = row
    store.alarm = min(store.alarm, row.until)


def lapse(store: Store, row: Row) -> None:
    """A lease ended by time: a loss, not a failure; one too many ends in the dead letters.

    It may start again at once: the lease's length was the pause.
    """
    when = row.until
    holder = row.worker.name if row.worker is not None else ""
    row.losses += 1
    if row.cancelled:
        finish.cancelled(store, when, row)
    elif row.losses > row.topic.policy.retry.losses:
        said = f"lost {row.losses} times; last held by {holder!r}, whose lease ended"
        row.failure = Failure("millgate.errors.LeaseLost", said)
        finish.bury(store, when, row, Reason.LOST)
    else:
        give_back(store, row, when, when)
