"""What time alone brings about: rows that become due, expire or lose their lease, and what is forgotten.

Every verb ticks first. Events happen in the order of their times and as of their times, so that it does not matter
which verb came by.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

from millgate.brokers.core import dead, registry
from millgate.brokers.core.claim import expire
from millgate.brokers.core.expiring import Expiring
from millgate.brokers.core.lease import lapse
from millgate.brokers.core.place import enter
from millgate.brokers.core.row import Row
from millgate.brokers.core.store import Store

_NEVER: Final = float("inf")
_SWEEP: Final = 1.0  # seconds between looks at the registry


def tick(store: Store, now: float) -> float:
    """Bring the queue up to `now`; answers the time that holds, which never steps back."""
    now = store.now = max(now, store.now)
    if now < store.alarm:
        return now
    while _step(store, now):
        pass
    _forget(store, now)
    store.alarm = min(_next(store), now + _SWEEP)
    return now


def shift(store: Store, by: float) -> None:
    """The wall clock was set by that many seconds: what lasts a while goes on lasting as long as it would have.

    Times that people named (`at`, `expires_at`, slots) stay what they are; those that were passed over come now.
    """
    store.now += by
    spare(store, by)
    store.dues.clear()
    for topic in store.topics.values():
        topic.shift(by, store.now)
        due = topic.next_due()
        if due is not None:
            store.due_at(topic, due)
    for row, expires in [(row, until) for _, row, until in store.expiries.items()]:
        row.expires = max(expires, store.now) if row.dated else expires + by
        store.expiries.set(row.id, row, row.expires)
    store.results.shift(by)
    store.windows.shift(by)
    store.recent.shift(by)


def spare(store: Store, by: float) -> None:
    """Nobody could be heard for that many seconds: what somebody must renew lasts that much longer."""
    store.alarm = 0.0
    for span in store.spans.values():
        for row in span.rows.values():
            row.until += by
    for worker in store.workers.values():
        worker.seen += by
        worker.fence = None if worker.fence is None else worker.fence + by
    store.locks.shift(by)


def next_event(store: Store) -> float | None:
    """When time alone next changes what others see: a row is due, expires, or loses its lease. None: never.

    What is merely forgotten then is left to the next verb.
    """
    lost = _first_lease(store)
    times = [store.dues[0][0]] if store.dues else []
    times += [lost.until] if lost is not None else []
    expiry = store.expiries.due()
    times += [expiry] if expiry is not None else []
    return min(times, default=None)


def lapses(store: Store, now: float) -> bool:
    """Whether a lease ends by then."""
    lost = _first_lease(store)
    return lost is not None and lost.until <= now


def _step(store: Store, now: float) -> bool:
    """Let the earliest event happen; False: nothing is due."""
    due = store.dues[0][0] if store.dues else _NEVER
    expiry = store.expiries.due()
    lost = _first_lease(store)
    until = lost.until if lost is not None else _NEVER
    first = min(due, until, _NEVER if expiry is None else expiry)
    if first > now:
        return False
    if first == due:
        _promote(store)
    elif lost is not None and first == until:
        lapse(store, lost)
    else:
        _expire(store, first)
    return True


def _promote(store: Store) -> None:
    when, name = heapq.heappop(store.dues)
    topic = store.topics[name]
    due = topic.next_due()
    if due is None:
        return
    if due <= when:
        row = heapq.heappop(topic.later)[2]
        topic.delayed -= 1
        row.where = -1
        enter(store, row, due)
        due = topic.next_due()
    if due is not None:
        store.due_at(topic, due)


def _expire(store: Store, now: float) -> None:
    found = store.expiries.pop_due(now)
    if found is not None:
        row = found[1]
        row.expires = None
        expire(store, row, now)


def _first_lease(store: Store) -> Row | None:
    firsts = [row for span in store.spans.values() if (row := span.first()) is not None]
    return min(firsts, key=lambda row: row.until) if firsts else None


def _forget(store: Store, now: float) -> None:
    while store.results.pop_due(now) is not None:
        pass
    while store.windows.pop_due(now) is not None:
        pass
    while store.locks.pop_due(now) is not None:
        pass
    store.recent.turn(now)
    registry.forget(store, now)
    if store.graves <= now:
        dead.age_out(store, now)


def _next(store: Store) -> float:
    lost = _first_lease(store)
    times = [
        store.graves,
        store.dues[0][0] if store.dues else _NEVER,
        lost.until if lost is not None else _NEVER,
    ]
    kept: tuple[Expiring[str, Any], ...] = (
        store.expiries,
        store.results,
        store.windows,
        store.locks,
    )
    # What is forgotten is in it, or it would depend on who came by when whether something is still known.
    dues = [entries.due() for entries in kept]
    dues += [store.recent.due(), registry.next_forgotten(store)]
    times += [due for due in dues if due is not None]
    return min(times)
