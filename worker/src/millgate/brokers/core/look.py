"""Looking at messages where they lie, without touching them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from millgate.brokers.base import Peeked, State
from millgate.brokers.core.results import state_of
from millgate.brokers.core.row import DELAYED, Row, message_of
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic
from millgate.errors import InvalidInput, NotDecodable
from millgate.message import Message, with_record
from millgate.rules import bounded


def peek(store: Store, now: float, topic: str, state: State, limit: int) -> list[Peeked]:
    """The first `limit` messages of a topic in one of the three states that are not final."""
    if state not in (State.WAITING, State.DELAYED, State.RUNNING):
        raise InvalidInput(
            f"cannot peek at {state!s} messages; ask for waiting, delayed or running, list the dead with `dead`"
        )
    found = store.topics.get(topic)
    if found is None or limit <= 0:
        return []
    return [_peeked(row, now) for row in _rows(store, found, state, bounded(limit))]


def _rows(store: Store, topic: Topic, state: State, limit: int) -> list[Row]:
    if state is State.WAITING:
        parked: Iterator[Row] = (row for gate in topic.gates.values() for row in gate)
        return heapq.nsmallest(limit, [*topic.line.peek(limit), *parked], key=lambda row: row.rank)
    if state is State.DELAYED:
        delayed = topic.delayed_rows()
        return heapq.nsmallest(limit, delayed, key=lambda row: (row.due, row.rank))
    held = (row for row in store.running() if row.topic is topic)
    return heapq.nsmallest(limit, held, key=lambda row: row.rank)


def _peeked(row: Row, now: float) -> Peeked:
    message: Message | None
    try:
        message = with_record(message_of(row), row.record)
    except NotDecodable:
        message = None
    return Peeked(
        id=row.id,
        topic=row.topic.name,
        state=state_of(row),
        message=message,
        attempt=row.attempt,
        due_in=max(0.0, row.due - now) if row.where == DELAYED else None,
        worker=row.worker.name if row.worker is not None else "",
    )
