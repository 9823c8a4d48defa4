"""What enters a queue: a receipt for what is known already, a row with its place for what is new."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from millgate.brokers.core import results
from millgate.brokers.core.place import enter, later
from millgate.brokers.core.row import Row, rank
from millgate.brokers.core.store import Store
from millgate.message import Message, Receipt


def receipts_for(store: Store, messages: Sequence[Message]) -> list[Receipt]:
    """One each, in order: under which id a message is known, and whether it was before."""
    ids: set[str] = set()
    texts: dict[str, str] = {}
    receipts = []
    for message in messages:
        holder = None
        if message.id in ids or results.is_known(store, message.id):
            holder = message.id
        elif message.unique is not None:
            holder = texts.get(message.unique) or _holder(store, message.unique)
        if holder is None:
            ids.add(message.id)
            if message.unique is not None:
                texts[message.unique] = message.id
        receipts.append(Receipt(holder or message.id, holder is not None))
    return receipts


def accept(store: Store, now: float, message: Message, record: bytes) -> None:
    """Store a message: now it waits, at once or for its time."""
    row = _row(store, message, record)
    if message.unique is not None:
        _take_unique(store, now, message)
    _set_expiry(store, now, row, message)
    due = message.at if message.at is not None else now + (message.delay or 0.0)
    if due > now:
        later(store, row, due)
    else:
        enter(store, row, now)


def follow(store: Store, now: float, messages: Sequence[Message]) -> None:
    """Publish what accepted work brings with it: neither a full queue nor an undeclared topic refuses it."""
    for message, receipt in zip(messages, receipts_for(store, messages), strict=True):
        if not receipt.duplicate:
            accept(store, now, message, message.record())


def again(store: Store, row: Row) -> Row:
    """A dead row as a new one: counts at zero, a new place in the order. The caller lets it in.

    It is another object: what still points to the old place must go on skipping it.
    """
    row = copy(row)
    row.attempt = row.failures = row.losses = row.interruptions = 0
    row.failure = row.progress = row.gate = None
    row.cancelled = row.holds = False
    row.expires = None
    store.seq += 1
    row.rank = rank(row.priority, store.seq)
    if row.unique is not None and _holder(store, row.unique) is None:
        store.holders[row.unique] = row.id
    store.rows[row.id] = row
    row.topic.enqueued += 1
    return row


def unplaced(store: Store, message: Message) -> Row:
    """A row that was accepted and is nowhere yet."""
    return _row(store, message, message.record())


def _holder(store: Store, unique: str) -> str | None:
    return store.holders.get(unique) or store.windows.get(unique)


def _row(store: Store, message: Message, record: bytes) -> Row:
    store.seq += 1
    topic = store.topic(message.topic)
    row = store.rows[message.id] = Row(message, topic, record, store.seq)
    topic.enqueued += 1
    return row


def _take_unique(store: Store, now: float, message: Message) -> None:
    assert message.unique is not None, "only called for a message with a unique text"
    if message.unique_for is None:
        store.holders[message.unique] = message.id
        return
    until = now + message.unique_for
    store.windows.set(message.unique, message.id, until)
    store.alarm = min(store.alarm, until)


def _set_expiry(store: Store, now: float, row: Row, message: Message) -> None:
    ttl = message.expires_in
    if message.expires_at is not None:
        expires = message.expires_at
        if ttl is not None:
            expires = min(expires, now + ttl)
    elif ttl is not None or (ttl := row.topic.policy.expires_in) is not None:
        expires = now + ttl
    else:
        return
    # not before it was accepted: what is remembered of its end counts from then
    row.expires = expires = max(expires, now)
    row.dated = message.expires_at is not None and (ttl is None or message.expires_at <= now + ttl)
    store.expiries.set(row.id, row, expires)
    store.alarm = min(store.alarm, expires)
