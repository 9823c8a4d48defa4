"""The gauges of /metrics: what the operator knows at this moment. Unknown numbers are left out, never zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from millgate_operator.canary import Canary
from millgate_operator.context import Context, PoolState
from millgate_operator.links import Key
from millgate_operator.metrics import Sample

#: Topics of one queue with series of their own; the rest is left to the broker's own metrics.
MOST_TOPICS: Final = 50


def gauges(context: Context, canary: Canary, *, leading: bool) -> Iterator[Sample]:
    """Every gauge."""
    yield "millgate_operator_leader", {}, float(leading)
    yield "millgate_operator_queue_depth", {"queue": "reconcile"}, float(len(context.reconciles))
    yield "millgate_operator_queue_depth", {"queue": "look"}, float(len(context.looks))
    yield "millgate_operator_broker_connections", {}, float(len(context.links))
    age = canary.age()
    if age is not None:
        yield "millgate_operator_watch_age_seconds", {}, age
    for key, state in context.pools.all():
        yield from _pool(key, state)


def _pool(key: Key, state: PoolState) -> Iterator[Sample]:
    labels = {"namespace": key[0], "queue": key[1]}
    decision, stats = state.decision, state.stats
    if decision is not None and decision.desired is not None:
        yield "millgate_pool_desired", labels, float(decision.desired)
        for term, value in asdict(state.terms).items():
            if value is not None:
                yield "millgate_autoscaler_term", labels | {"term": term}, float(value)
    if stats is None:
        return
    for name, topic in sorted(stats.topics.items())[:MOST_TOPICS]:
        mine = labels | {"topic": name}
        numbers = {
            "queued": topic.waiting,
            "claimable": topic.claimable,
            "running": topic.leased,
            "dead": topic.dead,
            "dead_dropped_total": topic.dropped,
            "oldest_seconds": topic.oldest,
        }
        for number, value in numbers.items():
            if value is not None:
                yield f"millgate_topic_{number}", mine, float(value)
