"""Moving one row: into its lane, aside, to its time, out. Every move keeps all counters and the gates right."""

from __future__ import annotations

from millgate.brokers.core.admit import Gate
from millgate.brokers.core.row import DELAYED, GONE, LANE, LEASED, PARKED, Row
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic


def enter(store: Store, row: Row, ready: float) -> None:
    """Let a due row wait: in its lane, or parked when its key is busy."""
    topic = row.topic
    gate = row.gate
    if gate is None:
        gate = row.gate = topic.gate_of(row)
    if gate is None:
        _into_lane(store, topic, row, ready)
        return
    lane, displaced = gate.admit(row)
    if displaced is not None:
        topic.parked += 1
        _out_of_lane(store, topic)
    if lane:
        _into_lane(store, topic, row, ready)
    else:
        topic.parked += 1


def restore(store: Store, row: Row) -> None:
    """Put a row of a snapshot where it was, deciding nothing anew."""
    topic = row.topic
    if row.where == DELAYED:
        later(store, row, row.due)
    elif row.where == LANE:
        gate = row.gate = row.gate or topic.gate_of(row)
        if gate is not None and not row.holds:
            gate.stand(row)
        _into_lane(store, topic, row, row.ready)
    elif row.where == PARKED:
        gate = row.gate = topic.gate_of(row)
        assert gate is not None, "only a gate parks"
        gate.park(row)
        topic.parked += 1


def later(store: Store, row: Row, due: float) -> None:
    """Let a row wait for its time."""
    topic = row.topic
    topic.put_later(row, due)
    store.delaying[topic.name] = topic
    if topic.next_due() == due:
        store.due_at(topic, due)


def start(row: Row) -> None:
    """A row that was popped from its lane goes to a worker: its key's slot goes with it."""
    if row.gate is not None:
        row.gate.started(row)


def give_back(store: Store, row: Row, due: float, now: float) -> None:
    """A row that runs is taken from its holder and will run again from `due` on."""
    gate = row.gate
    row.timed = False
    unlease(store, row)
    if gate is not None:
        gate.returned(row)
    if due > now:
        later(store, row, due)
        row.gate = gate if row.holds else None
    else:
        enter(store, row, due)
    if gate is not None:
        refill(store, row.topic, gate, now)


def remove(store: Store, row: Row, now: float) -> None:
    """Take a row out of wherever it is, for good."""
    where, gate, topic = row.where, row.gate, row.topic
    if where == LEASED:
        unlease(store, row)
    row.where = GONE
    if where == LANE:
        _out_of_lane(store, topic)
    elif where == PARKED:
        topic.parked -= 1
    elif where == DELAYED:
        topic.left_later()
    del store.rows[row.id]
    if row.expires is not None:
        store.expiries.pop(row.id)
    if gate is not None:
        gate.ended(row, where)
        refill(store, topic, gate, now)


def unlease(store: Store, row: Row) -> None:
    """End a row's lease; its token is stale from now on."""
    topic, span, worker = row.topic, row.span, row.worker
    if span is not None:
        span.rows.pop(row.id, None)
    if worker is not None:
        worker.leased -= 1
    row.span = row.worker = None
    row.token = ""
    row.where = GONE
    topic.leased -= 1
    store.leased -= 1
    freed(store, topic)


def freed(store: Store, topic: Topic) -> None:
    """A slot of a topic is free: say so where somebody may wait for it."""
    if store.config.queue.limit is not None:
        store.news.topics.update(store.active)
    elif topic.limit is not None and topic.line.live:
        store.news.topics.add(topic.name)


def refill(store: Store, topic: Topic, gate: Gate, now: float) -> None:
    """Let parked rows of a key into the lane, as many as its free slots allow."""
    while (row := gate.next()) is not None:
        topic.parked -= 1
        _into_lane(store, topic, row, now)
    if gate.empty:
        topic.gates.pop(gate.name, None)


def emptied(store: Store, topic: Topic) -> None:
    """Called after a lane lost rows: an empty one does not compete."""
    if not topic.line.live:
        store.active.pop(topic.name, None)


def _into_lane(store: Store, topic: Topic, row: Row, ready: float) -> None:
    line = topic.line
    if not line.live:
        store.active[topic.name] = topic
        topic.passed = max(topic.passed, store.vtime[topic.policy.priority])
    line.push(row, ready)
    store.news.topics.add(topic.name)


def _out_of_lane(store: Store, topic: Topic) -> None:
    topic.line.left()
    emptied(store, topic)
