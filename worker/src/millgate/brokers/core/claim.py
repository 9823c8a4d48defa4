"""The claim: settle, choose topics, take rows from their lanes. Its cost depends on what it hands over, not on what
waits, is delayed, parked or dead."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.base import MAX_BATCH, Ask, Claimed
from millgate.brokers.core import finish, rate
from millgate.brokers.core.choose import Entrant, choose, raised
from millgate.brokers.core.lease import grant, held, renew, span_of
from millgate.brokers.core.place import emptied, start
from millgate.brokers.core.registry import alive
from millgate.brokers.core.row import Row
from millgate.brokers.core.settle import settle
from millgate.brokers.core.store import Store
from millgate.brokers.core.topic import Topic
from millgate.brokers.core.worker import Worker
from millgate.errors import InvalidInput
from millgate.fleet import WorkerRef, WorkerState
from millgate.message import Claim, ClaimRef
from millgate.outcome import Failure, Reason
from millgate.queues import Subscription
from millgate.settlement import Settlement


def claim(
    store: Store,
    now: float,
    ref: WorkerRef,
    ask: Ask,
    settlements: Sequence[Settlement] = (),
    call: str | None = None,
) -> Claimed:
    """Carry out settlements, then hand over up to `ask.n` messages.

    `call` names this call; the same worker's repeat of it answers the claims of the first that are still held, their
    leases counted anew, and claims nothing more.
    """
    if not 0 <= ask.n <= MAX_BATCH:
        raise InvalidInput(f"n is {ask.n}; claim 0 to {MAX_BATCH} messages in one call")
    stale = settle(store, now, settlements) if settlements else ()
    worker = alive(store, now, ref)
    revision = store.config.revision
    if worker is None:
        return Claimed((), stale, WorkerState.UNKNOWN, revision, None)
    if call is not None and call == worker.call:
        return Claimed(_again(store, now, worker), stale, worker.state(now), revision, 0.0)
    state = worker.state(now)
    claims: tuple[Claim, ...] = ()
    if ask.n and state is WorkerState.ACTIVE and not store.config.queue.suspended:
        claims = _take(store, now, worker, ask)
    worker.call, worker.memo = call, tuple((c.id, c.token) for c in claims) if call else ()
    full = len(claims) == ask.n > 0
    due = 0.0 if full else next_due(store, now, ask.subscription, worker)
    return Claimed(claims, stale, state, revision, due)


def entrants(store: Store, now: float, subscription: Subscription) -> list[Entrant]:
    """The topics from which this subscription could be served now."""
    found = []
    limited = store.config.queue.limit is not None
    reach = store.reach(subscription)
    for name, topic in store.active.items():
        level = reach[name] if name in reach else store.level(subscription, topic)
        if level is None or topic.paused:
            continue
        quota = topic.line.live if topic.free else topic.allowed(now)
        if quota > 0:
            unmet = store.unmet(topic) if limited else 0
            found.append(Entrant(name, level, topic.policy.weight, topic.passed, quota, unmet))
    if not subscription.ordered and len(found) > 1:
        _age(store, now, found)
    return found


def claimable(store: Store, now: float, subscription: Subscription) -> bool:
    """Whether a claim with this subscription would be given something."""
    if store.config.queue.suspended:
        return False
    room = store.room()
    if room is None:
        return bool(entrants(store, now, subscription))
    return any(room + entrant.unmet > 0 for entrant in entrants(store, now, subscription))


def ready(store: Store, now: float, subscription: Subscription) -> int:
    """How many messages claims with this subscription would be given now."""
    if store.config.queue.suspended:
        return 0
    found = entrants(store, now, subscription)
    count = sum(entrant.quota for entrant in found)
    room = store.room()
    if room is None:
        return count
    return max(0, min(count, room + sum(entrant.unmet for entrant in found)))


def next_due(
    store: Store, now: float, subscription: Subscription, worker: Worker | None = None
) -> float | None:
    """Seconds after which time alone may make something claimable: a delay, a rate, a lease or a fence that ends."""
    for name in [name for name, topic in store.delaying.items() if not topic.delayed]:
        del store.delaying[name]
    times = [
        when
        for topic in (*store.delaying.values(), *store.rated)
        if store.level(subscription, topic) is not None
        for when in _times(topic, now)
    ]
    times += [row.until for span in store.spans.values() if (row := span.first()) is not None]
    if worker is not None and worker.fence is not None and worker.fence > now:
        times.append(worker.fence)
    return max(0.0, min(times) - now) if times else None


def _times(topic: Topic, now: float) -> list[float]:
    times = []
    due = topic.next_due()
    if due is not None:
        times.append(due)
    if topic.policy.rate is not None and topic.line.live:
        wait = rate.next_in(topic.tokens(now), topic.policy.rate)
        if wait > 0:
            times.append(now + wait)
    return times


def _age(store: Store, now: float, found: list[Entrant]) -> None:
    top = max(entrant.level for entrant in found)
    for entrant in found:
        if entrant.level < top:
            topic = store.topics[entrant.name]
            oldest = topic.line.oldest()
            waited = now - oldest if oldest is not None else 0.0
            entrant.level = raised(entrant.level, waited, topic.policy.boost_after, top)


def _take(store: Store, now: float, worker: Worker, ask: Ask) -> tuple[Claim, ...]:
    claims: list[Claim] = []
    for entrant in choose(entrants(store, now, ask.subscription), ask.n, store.room()):
        topic = store.topics[entrant.name]
        store.vtime[topic.policy.priority] = topic.passed
        topic.passed = entrant.passed
        _serve(store, now, worker, topic, entrant.granted, claims)
    return tuple(claims)


def _serve(
    store: Store, now: float, worker: Worker, topic: Topic, count: int, claims: list[Claim]
) -> None:
    span = span_of(store, topic.policy.lease)
    until = now + span.length
    for _ in range(count):
        row = topic.line.pop()
        if row.gate is not None:
            start(row)
        grant(store, row, span, worker, until)
        row.attempt += 1
        if row.attempt == 1:
            topic.started += 1
        if row.expires is not None:
            row.expires = None
            store.expiries.pop(row.id)
        claims.append(_claim(row, topic, span.length, now))
    topic.leased += count
    store.leased += count
    worker.leased += count
    if topic.policy.rate is not None:
        topic.bucket = rate.drawn(topic.tokens(now), count)
    store.alarm = min(store.alarm, until)
    emptied(store, topic)


def _claim(row: Row, topic: Topic, lease: float, now: float) -> Claim:
    return Claim(
        row.id,
        topic.name,
        row.token,
        row.record,
        row.attempt,
        row.failures,
        row.losses,
        row.interruptions,
        lease,
        now - row.ready if now > row.ready else 0.0,
        row.priority,
        row.key,
        row.result_ttl,
        row.group,
    )


def _again(store: Store, now: float, worker: Worker) -> tuple[Claim, ...]:
    claims = []
    for task_id, token in worker.memo:
        row = held(store, ClaimRef(task_id, "", token))
        if row is not None:
            renew(store, now, row)
            claims.append(_claim(row, row.topic, row.topic.policy.lease, now))
    return tuple(claims)


def expire(store: Store, row: Row, when: float) -> None:
    """A message did not start in time."""
    row.failure = row.failure or Failure("millgate.Expired", "it did not start before it expired")
    finish.bury(store, when, row, Reason.EXPIRED)
