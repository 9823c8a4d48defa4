"""What must hold in the reference queue after every verb; the first thing that does not is named."""

from __future__ import annotations

from collections import Counter

from millgate.brokers.core import Core
from millgate.brokers.core.admit import Gate
from millgate.brokers.core.row import DELAYED, LANE, LEASED, PARKED, Row
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic


def check(core: Core) -> None:
    """Every counter equals what it counts, every message is in one place, no slot is free while somebody waits."""
    store = core.store
    for topic in store.topics.values():
        rows = [row for row in store.rows.values() if row.topic is topic]
        _check_topic(store, topic, rows)
        for gate in topic.gates.values():
            _check_gate(gate, [row for row in rows if row.gate is gate])
    _check_leases(store)
    _check_texts(store)
    assert store.dead == {
        name: dead for topic in store.topics.values() for name, dead in topic.dead.items()
    }
    assert not set(store.dead) & set(store.rows), "a dead letter is alive"
    _check_groups(store)


def _check_topic(store: Store, topic: Topic, rows: list[Row]) -> None:
    places = Counter(row.where for row in rows)
    assert set(places) <= {LANE, PARKED, DELAYED, LEASED}, f"{topic.name}: a row is nowhere"
    counted = (topic.line.live, topic.parked, topic.delayed, topic.leased)
    assert counted == (places[LANE], places[PARKED], places[DELAYED], places[LEASED]), topic.name
    ended = topic.completed + topic.failed
    assert topic.enqueued == len(rows) + ended, f"{topic.name}: a message was lost or doubled"
    assert (topic.name in store.active) == bool(topic.line.live), f"{topic.name}: active or not"
    lane = sorted((row for row in rows if row.where == LANE), key=lambda row: row.rank)
    assert topic.line.peek(len(lane) + 1) == lane, f"{topic.name}: the lane is out of order"
    oldest = min((row.ready for row in lane), default=None)
    assert topic.line.oldest() == oldest, f"{topic.name}: the oldest is another one"
    dues = [row.due for row in rows if row.where == DELAYED]
    assert topic.next_due() == min(dues, default=None), f"{topic.name}: the next due is another one"
    if dues:
        assert any(name == topic.name and due <= min(dues) for due, name in store.dues)
    held = len(topic.line.fresh) + len(topic.line.back) + len(topic.line.ages)
    assert held <= 5 * topic.line.live + 200, f"{topic.name}: marks pile up in the lane"


def _check_gate(gate: Gate, rows: list[Row]) -> None:
    lane = sorted((row.rank, row) for row in rows if row.where == LANE and not row.holds)
    assert gate.lane == lane, f"key {gate.name!r}: its rows in the lane are others"
    assert gate.busy == sum(row.holds for row in rows), f"key {gate.name!r}: busy is miscounted"
    parked = sorted(row.rank for row in rows if row.where == PARKED)
    assert gate.parked == len(parked)
    assert not gate.empty, f"key {gate.name!r}: an empty gate was kept"
    if parked:
        assert gate.busy + len(lane) >= gate.limit, (
            f"key {gate.name!r}: a free slot, and rows parked"
        )
        assert not lane or lane[-1][0] < parked[0], f"key {gate.name!r}: the wrong row is parked"


def _check_leases(store: Store) -> None:
    leased = {row.id: row for row in store.rows.values() if row.where == LEASED}
    in_spans = {row.id: row for span in store.spans.values() for row in span.rows.values()}
    assert in_spans == leased
    assert store.leased == len(leased)
    tokens = [row.token for row in leased.values()]
    assert len(set(tokens)) == len(tokens), "two claims share a token"
    for span in store.spans.values():
        ends = [row.until for row in span.rows.values()]
        assert ends == sorted(ends), "leases are out of order"
    held = Counter(id(row.worker) for row in leased.values())
    for worker in store.workers.values():
        assert worker.leased == held[id(worker)], f"{worker.name}: leased is miscounted"


def _check_texts(store: Store) -> None:
    for text, name in store.holders.items():
        assert store.rows[name].unique == text, f"{text!r} is held by nobody"
    for name, row, _ in store.expiries.items():
        assert store.rows.get(name) is row
        assert row.expires is not None
    expiring = {row.id for row in store.rows.values() if row.expires is not None}
    assert expiring == {name for name, _, _ in store.expiries.items()}


def _check_groups(store: Store) -> None:
    named = {name for found in store.watched.values() for name, _ in found}
    assert named <= set(store.groups), "a message is watched for a group that is over"
    for gathering in store.groups.values():
        assert gathering.pending or gathering.buried, f"group {gathering.id} waits for nobody"
        assert gathering.buried == (gathering.callback.id in store.callbacks)
    assert all(callback in store.dead for callback in store.callbacks)
