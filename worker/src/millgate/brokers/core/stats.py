"""All counts at one moment, read off the counters: the cost depends on the number of topics and workers only."""

from __future__ import annotations

from millgate.brokers.core import registry
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic
from millgate.stats import Stats, TopicStats


def stats(store: Store, now: float) -> Stats:
    """Every topic that is declared or was ever used, and every worker."""
    for name in store.config.topics:
        store.topic(name)
    room = store.room()
    dues = [due for topic in store.topics.values() if (due := topic.next_due()) is not None]
    return Stats(
        topics={
            name: _topic(store, store.topics[name], now, room) for name in sorted(store.topics)
        },
        workers=registry.rows(store, now),
        revision=store.config.revision,
        next_due=max(0.0, min(dues) - now) if dues else None,
    )


def _topic(store: Store, topic: Topic, now: float, room: int | None) -> TopicStats:
    claimable = _claimable(store, topic, now, room)
    oldest = topic.line.oldest() if claimable else None
    return TopicStats(
        waiting=topic.waiting,
        claimable=claimable,
        delayed=topic.delayed,
        leased=topic.leased,
        dead=len(topic.dead),
        oldest=None if oldest is None else max(0.0, now - oldest),
        enqueued=topic.enqueued,
        started=topic.started,
        completed=topic.completed,
        failed=topic.failed,
        declared=topic.declared,
        paused=topic.paused,
        dropped=topic.dropped,
    )


def _claimable(store: Store, topic: Topic, now: float, room: int | None) -> int:
    if topic.paused or store.config.queue.suspended:
        return 0
    count = topic.allowed(now)
    if room is not None:
        count = min(count, room + store.unmet(topic))
    return max(0, count)
