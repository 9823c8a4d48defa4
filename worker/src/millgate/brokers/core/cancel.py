"""Taking messages away: cancelled by id, purged by topic, or taken from their holder to run again."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.base import PUBLISH_MEMORY, CancelState, State
from millgate.brokers.core import finish, results
from millgate.brokers.core.registry import put_back
from millgate.brokers.core.row import LEASED
from millgate.brokers.core.store import Store
from millgate.errors import InvalidInput

_PURGED = (State.WAITING, State.DELAYED)


def cancel(store: Store, now: float, ids: Sequence[str]) -> list[CancelState]:
    """Remove what has not started; mark what runs. A callback that the end of one brings about was not there to be
    cancelled, wherever its id stands in the list."""
    strange = {
        task_id
        for task_id in ids
        if task_id not in store.rows and not results.is_known(store, task_id)
    }
    return [
        CancelState.UNKNOWN if task_id in strange else _cancel(store, now, task_id)
        for task_id in ids
    ]


def purge(store: Store, now: float, topic: str, states: Sequence[State]) -> int:
    """Remove a topic's messages in these states; their ends are remembered for a short while only."""
    strange = [state for state in states if state not in _PURGED]
    if strange:
        raise InvalidInput(
            f"cannot purge {strange[0]!s} messages; purge waiting and delayed, cancel what runs, purge_dead the dead"
        )
    found = store.topics.get(topic)
    if found is None:
        return 0
    rows = []
    if State.WAITING in states:
        rows += [*found.line, *(row for gate in found.gates.values() for row in gate)]
    if State.DELAYED in states:
        rows += found.delayed_rows()
    for row in sorted(rows, key=lambda row: -row.rank):  # from the back, so that nobody moves up
        finish.cancelled(store, now, row, keep_for=PUBLISH_MEMORY)
    return len(rows)


def requeue(store: Store, now: float, ids: Sequence[str]) -> list[str]:
    """Take running messages from their holders; answers those that were running."""
    return [task_id for task_id in ids if put_back(store, now, task_id)]


def _cancel(store: Store, now: float, task_id: str) -> CancelState:
    row = store.rows.get(task_id)
    if row is None:
        return CancelState.FINISHED
    if row.where == LEASED:
        row.cancelled = True
        return CancelState.SIGNALLED
    finish.cancelled(store, now, row)
    return CancelState.REMOVED
