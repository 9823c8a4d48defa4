"""Dead letters: kept whole within bounds of age and number, forwarded or dropped as the topic says, and replayed."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from millgate.brokers.base import DeadLetter
from millgate.brokers.core import groups
from millgate.brokers.core.accept import again, follow
from millgate.brokers.core.place import enter
from millgate.brokers.core.row import Dead, Row, message_of
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic
from millgate.brokers.forwarded import forwarded
from millgate.errors import NotDecodable
from millgate.message import Message, with_record
from millgate.queues import DeadPolicy
from millgate.rules import bounded


def put(store: Store, now: float, dead: Dead) -> None:
    """Do with it what its topic says; what cannot be forwarded is kept."""
    topic = dead.row.topic
    if topic.policy.dead is DeadPolicy.DROP:
        return
    if topic.policy.dead is DeadPolicy.FORWARD and _forward(store, now, dead):
        return
    store.serial += 1
    dead.no = store.serial
    store.dead[dead.row.id] = topic.dead[dead.row.id] = dead
    bound(store, topic)
    store.graves = min(store.graves, dead.died + topic.policy.dead_retention)
    store.alarm = min(store.alarm, store.graves)


def take(store: Store, task_id: str) -> Dead | None:
    """Take one out, for good or to be replayed."""
    dead = store.dead.pop(task_id, None)
    if dead is not None:
        del dead.row.topic.dead[task_id]
    return dead


def bound(store: Store, topic: Topic) -> None:
    """Forget the oldest of those that are more than the topic keeps."""
    while topic.policy.dead_max and len(topic.dead) > topic.policy.dead_max:
        _forget(store, next(iter(topic.dead)))
        topic.dropped += 1


def age_out(store: Store, now: float) -> None:
    """Forget what is older than its topic keeps dead letters."""
    store.graves = float("inf")
    for topic in store.topics.values():
        keep = topic.policy.dead_retention
        while topic.dead:
            first = next(iter(topic.dead.values()))
            if first.died + keep > now:
                store.graves = min(store.graves, first.died + keep)
                break
            _forget(store, first.row.id)
            topic.dropped += 1


def page(store: Store, topic: str | None, limit: int, after: str | None) -> list[DeadLetter]:
    """Newest first, from behind `after`; an `after` that is gone (it was replayed) starts at the newest."""
    topics = [each for each in store.topics.values() if topic in (None, each.name)]
    found = heapq.merge(*(reversed(each.dead.values()) for each in topics), key=_newest)
    below = store.dead[after].no if after in store.dead else store.serial + 1
    chosen = (dead for dead in found if dead.no < below)
    return [letter(dead) for dead in islice(chosen, bounded(limit))]


def letter(dead: Dead) -> DeadLetter:
    """A dead letter as the contract shows it."""
    row = dead.row
    message = _message(row)
    return DeadLetter(
        id=row.id,
        topic=row.topic.name,
        reason=dead.reason,
        died=dead.died,
        message=message,
        failure=row.failure,
        attempt=row.attempt,
        failures=row.failures,
        losses=row.losses,
        interruptions=row.interruptions,
        worker=dead.worker,
        raw=b"" if message is not None else row.record,
    )


def replay(store: Store, now: float, ids: Sequence[str]) -> list[str]:
    """Let dead letters wait again, counts at zero; answers those that were there."""
    return [task_id for task_id in ids if _replay(store, now, task_id)]


def purge(store: Store, topic: str | None, ids: Sequence[str] | None) -> int:
    """Forget those named, or all of a topic, or all."""
    chosen = list(ids) if ids is not None else list(store.dead)
    if topic is not None:
        own = store.topics[topic].dead if topic in store.topics else {}
        chosen = [task_id for task_id in chosen if task_id in own] if ids is not None else list(own)
    return sum(_forget(store, task_id) for task_id in chosen)


def _replay(store: Store, now: float, task_id: str) -> bool:
    dead = take(store, task_id)
    if dead is None:
        return False
    groups.dead_letter_gone(store, task_id)
    store.results.pop(task_id)
    row = again(store, dead.row)
    for callback in groups.member_revived(store, task_id):
        take(store, callback)
        store.results.pop(callback)
    enter(store, row, now)
    return True


def _forget(store: Store, task_id: str) -> bool:
    dead = take(store, task_id)
    if dead is None:
        return False
    groups.dead_letter_gone(store, task_id)
    return True


def _forward(store: Store, now: float, dead: Dead) -> bool:
    message, target = _message(dead.row), dead.row.topic.policy.dead_topic
    if message is None or target is None:
        return False
    store.serial += 1
    row = dead.row
    copy = forwarded(message, str(dead.reason), row.attempt, row.failure, target, store.serial)
    follow(store, now, [copy])
    return True


def _message(row: Row) -> Message | None:
    try:
        return with_record(message_of(row), row.record)
    except NotDecodable:
        return None


def _newest(dead: Dead) -> int:
    return -dead.no
