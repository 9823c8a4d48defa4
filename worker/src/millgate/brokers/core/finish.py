"""The end of a message, whichever it is: slots freed, unique text freed, the end remembered, its groups told; and what
comes of a group with its last member."""

from __future__ import annotations

from millgate.brokers.base import State
from millgate.brokers.core import dead, groups, results
from millgate.brokers.core.accept import follow, unplaced
from millgate.brokers.core.place import remove
from millgate.brokers.core.row import Dead, Row
from millgate.brokers.core.store import Ended, Gathering, Store
from millgate.outcome import Reason
from millgate.rules import lasting
from millgate.settlement import Ack


def succeeded(store: Store, now: float, row: Row, ack: Ack) -> None:
    """A run ended well; its result is kept as long as it, the message or the topic says. What it publishes comes after
    the end, which frees the unique text and the key that a follower may want, and before its groups are told."""
    result, ttl = ack.result, None if ack.result_ttl is None else lasting(ack.result_ttl)
    row.topic.completed += 1
    _gone(store, now, row)
    kept = _ttl(row, ttl)
    if result is None or kept <= 0:
        store.recent.current(now)[row.id] = row.topic.name
    else:
        ended = Ended(State.SUCCEEDED, row.topic.name, result, None, "", row.progress, row.attempt)
        results.keep(store, now, row.id, ended, kept)
    if ack.publish:
        follow(store, now, ack.publish)
    _told(store, now, row, State.SUCCEEDED)


def bury(store: Store, now: float, row: Row, reason: Reason) -> None:
    """Give a message up: to the dead letters, or wherever its topic says."""
    worker = row.worker.name if row.worker is not None else ""
    row.topic.failed += 1
    _gone(store, now, row)
    ended = Ended(
        State.FAILED, row.topic.name, None, row.failure, reason, row.progress, row.attempt
    )
    results.keep(store, now, row.id, ended, _ttl(row, None))
    dead.put(store, now, Dead(row, reason, now, worker))
    _told(store, now, row, State.FAILED)


def cancelled(store: Store, now: float, row: Row, *, keep_for: float | None = None) -> None:
    """A message is gone because somebody said so; no dead letter."""
    row.topic.failed += 1
    _gone(store, now, row)
    ended = Ended(State.CANCELLED, row.topic.name, None, row.failure, "", row.progress, row.attempt)
    results.keep(store, now, row.id, ended, _ttl(row, keep_for))
    _told(store, now, row, State.CANCELLED)


def close(store: Store, now: float, gathering: Gathering) -> None:
    """Publish the callback of a group that waits for nobody any more; bury it where a failed member forbids it."""
    if gathering.pending or gathering.buried:
        return
    callback = gathering.callback
    taken = results.is_known(store, callback.id)  # somebody published this id meanwhile
    if taken or not (gathering.failed and gathering.require_all):
        groups.forget(store, gathering)
        follow(store, now, [callback])
        return
    gathering.buried = True
    store.callbacks[callback.id] = gathering.id
    row = unplaced(store, callback)
    row.failure = groups.failure_of(gathering)
    bury(store, now, row, Reason.MEMBER_FAILED)
    if callback.id not in store.dead:
        groups.forget(store, gathering)


def _gone(store: Store, now: float, row: Row) -> None:
    remove(store, row, now)
    if row.unique is not None and store.holders.get(row.unique) == row.id:
        del store.holders[row.unique]


def _told(store: Store, now: float, row: Row, state: State) -> None:
    store.news.ended.append(row.id)
    if store.watched:
        for gathering in groups.member_ended(store, row.id, state):
            close(store, now, gathering)


def _ttl(row: Row, ttl: float | None) -> float:
    if ttl is not None:
        return ttl
    return row.result_ttl if row.result_ttl is not None else row.topic.policy.result_ttl
