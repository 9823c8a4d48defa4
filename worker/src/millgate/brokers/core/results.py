"""What is known of a message after its end, and where it is before."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.base import PUBLISH_MEMORY, State, TaskState
from millgate.brokers.core.row import DELAYED, LEASED, Row
from millgate.brokers.core.store import Ended, Store


def keep(store: Store, now: float, task_id: str, ended: Ended, ttl: float) -> None:
    """Remember an end for `ttl` seconds, and its id at least for as long as a repeated publish may come."""
    if ended.state is not State.SUCCEEDED:
        ttl = max(ttl, PUBLISH_MEMORY)
    elif ttl < PUBLISH_MEMORY:
        store.recent.current(now)[task_id] = ended.topic
    if ttl > 0:
        store.results.set(task_id, ended, now + ttl)
        store.alarm = min(store.alarm, now + ttl)


def states(store: Store, ids: Sequence[str]) -> list[TaskState]:
    """What is known of each id, in order."""
    return [_state(store, task_id) for task_id in ids]


def state_of(row: Row) -> State:
    """The contract's word for where a row is."""
    if row.where == LEASED:
        return State.RUNNING
    return State.DELAYED if row.where == DELAYED else State.WAITING


def is_known(store: Store, task_id: str) -> bool:
    """Whether a publish of this id would be a repeat."""
    return (
        task_id in store.rows
        or task_id in store.results
        or store.recent.get(task_id) is not None
        or task_id in store.dead
    )


def is_final(store: Store, task_id: str) -> bool:
    """Whether the message has ended."""
    return task_id not in store.rows and is_known(store, task_id)


def _state(store: Store, task_id: str) -> TaskState:
    row = store.rows.get(task_id)
    if row is not None:
        return _of_row(row)
    ended = store.results.get(task_id)
    if ended is not None:
        return TaskState(
            id=task_id,
            state=ended.state,
            topic=ended.topic,
            result=ended.result,
            failure=ended.failure,
            reason=ended.reason,
            progress=ended.progress,
            attempt=ended.attempt,
        )
    dead = store.dead.get(task_id)
    if dead is not None:
        row = dead.row
        return TaskState(
            id=task_id,
            state=State.FAILED,
            topic=row.topic.name,
            failure=row.failure,
            reason=dead.reason,
            progress=row.progress,
            attempt=row.attempt,
        )
    topic = store.recent.get(task_id)
    return TaskState(id=task_id) if topic is None else TaskState(task_id, State.SUCCEEDED, topic)


def _of_row(row: Row) -> TaskState:
    return TaskState(
        id=row.id,
        state=state_of(row),
        topic=row.topic.name,
        failure=row.failure,
        progress=row.progress,
        attempt=row.attempt,
        worker=row.worker.name if row.worker is not None else "",
    )
