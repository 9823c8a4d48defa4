"""Policies: checked, stored under a new revision when they differ, and obeyed from the next claim on."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.core import dead
from millgate.brokers.core.line import Line
from millgate.brokers.core.place import enter, remove
from millgate.brokers.core.row import DELAYED, GONE, LANE, LEASED, PARKED, Row
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic
from millgate.errors import InvalidInput
from millgate.queues import (
    Configuration,
    Ordering,
    QueuePolicy,
    TopicPolicy,
    check_policy,
    check_queue,
)
from millgate.rules import check_topic


def configure(
    store: Store,
    now: float,
    topics: Sequence[TopicPolicy],
    queue: QueuePolicy | None,
    replace_all: bool,
) -> int:
    """Store policies; the revision. Topics that are not named keep theirs, unless `replace_all`."""
    old = store.config
    kept = {} if replace_all else dict(old.topics)
    wanted = Configuration(
        old.revision + 1,
        old.queue if queue is None else queue,
        kept | {policy.name: policy for policy in topics},
    )
    _check(wanted, topics)
    if (wanted.queue, wanted.topics) == (old.queue, old.topics):
        return old.revision
    store.config = wanted
    for name in {**store.topics, **wanted.topics}:
        _apply(store, now, store.topic(name))
    store.reconfigured()
    store.news.topics.update(store.active)
    return wanted.revision


def pause(store: Store, topic: str, paused: bool) -> None:
    """Stop or resume claims by hand."""
    check_topic(topic)
    store.topic(topic).hold(paused)
    if topic in store.active:
        store.news.topics.add(topic)


def _check(wanted: Configuration, topics: Sequence[TopicPolicy]) -> None:
    for policy in topics:
        check_policy(policy)
    check_queue(wanted.queue)
    limit = wanted.queue.limit
    reserved = sum(policy.reserve for policy in wanted.topics.values())
    if limit is not None and reserved > limit:
        raise InvalidInput(
            f"topics reserve {reserved} slots, the queue's limit is {limit}; raise it, or reserve fewer"
        )


def _apply(store: Store, now: float, topic: Topic) -> None:
    before, policy = topic.policy, store.config.policy(topic.name)
    topic.apply(policy, topic.name in store.config.topics)
    if before.rate != policy.rate:
        topic.bucket = None
    if _gating(before) != _gating(policy):
        _regate(store, now, topic)
    if topic.dead:
        dead.bound(store, topic)
        store.graves = store.alarm = min(store.graves, now)


def _gating(policy: TopicPolicy) -> tuple[object, ...]:
    return policy.ordering, policy.effective_key_limit


def _regate(store: Store, now: float, topic: Topic) -> None:
    """Let every row pass the new gates: what has started takes its slot first, then the others in order."""
    policy, rows = topic.policy, [row for row in store.rows.values() if row.topic is topic]
    waiting = [
        (row.ready if row.where == LANE else now, row)
        for row in rows
        if row.where in (LANE, PARKED)
    ]
    for _, row in waiting:
        _lift(store, row, now)
    topic.gates.clear()
    topic.line = Line()
    started = []
    for row in rows:
        row.gate, row.holds = None, False
        if row.where == LEASED:
            _occupy(topic, row)
        elif row.where in (DELAYED, GONE) and row.attempt and policy.ordering is not Ordering.NONE:
            started.append(row)
    for row in sorted(started, key=lambda row: row.rank):
        gate = topic.gate_of(row)
        if gate is not None and gate.busy < gate.limit:
            _occupy(topic, row)
    # as they entered, so that the ages stay in order; a gate puts the better ranked first by itself
    for ready, row in sorted(waiting, key=lambda entry: (entry[0], entry[1].rank)):
        store.rows[row.id] = row
        enter(store, row, ready)


def _lift(store: Store, row: Row, now: float) -> None:
    expires, row.expires, row.gate = row.expires, None, None
    remove(store, row, now)
    row.expires = expires


def _occupy(topic: Topic, row: Row) -> None:
    """Give a row that has started the slot it would hold had the gate been there all along."""
    gate = row.gate = topic.gate_of(row)
    if gate is not None:
        gate.busy += 1
        row.holds = True
