"""Who works: registration, fences, and forgetting those that fell silent."""

from __future__ import annotations

from millgate.brokers.base import Fenced
from millgate.brokers.core.finish import cancelled
from millgate.brokers.core.place import give_back
from millgate.brokers.core.row import LEASED
from millgate.brokers.core.store import Store
from millgate.brokers.core.worker import Worker
from millgate.fleet import WORKER_TTL, WorkerInfo, WorkerRef, WorkerRow, WorkerState
from millgate.rules import check_name, check_texts, check_ttl


def register(store: Store, now: float, ref: WorkerRef, info: WorkerInfo) -> None:
    """Enter, or renew; another incarnation takes the name over, without the older one's fence."""
    check_name("a worker's name", ref.name)
    check_name("an incarnation", ref.incarnation)
    worker = store.workers.get(ref.name)
    if worker is None or worker.incarnation != ref.incarnation:
        store.workers[ref.name] = _entered(store, ref, info, now)
    else:
        worker.info = info
    alive(store, now, ref)


def _entered(store: Store, ref: WorkerRef, info: WorkerInfo, now: float) -> Worker:
    """A worker's row, and in it what this start holds already: it may have been forgotten while its leases ran on."""
    worker = Worker(ref, info, now)
    for row in store.running():
        if row.worker is not None and row.worker.ref == ref:
            row.worker = worker
            worker.leased += 1
    return worker


def unregister(store: Store, now: float, ref: WorkerRef) -> None:
    """Leave; what is still held is given back, charged to nobody."""
    worker = known(store, ref)
    if worker is None:
        return
    for row in [row for row in store.running() if row.worker is worker]:
        put_back(store, now, row.id)
    del store.workers[ref.name]


def put_back(store: Store, now: float, task_id: str) -> bool:
    """Take a running message from its holder, charged to nobody; False: it does not run."""
    row = store.rows.get(task_id)
    if row is None or row.where != LEASED:
        return False
    row.interruptions += 1
    if row.cancelled:
        cancelled(store, now, row)
    else:
        give_back(store, row, now, now)
    return True


def known(store: Store, ref: WorkerRef) -> Worker | None:
    """The worker, if it is this incarnation that has the name."""
    worker = store.workers.get(ref.name)
    if worker is None or worker.incarnation != ref.incarnation:
        return None
    return worker


def alive(store: Store, now: float, ref: WorkerRef) -> Worker | None:
    """Note a sign of life; None: this incarnation is not known."""
    worker = known(store, ref)
    if worker is not None:
        worker.seen = now
        store.workers.move_to_end(ref.name)
    return worker


def fence(store: Store, now: float, name: str, ttl: float) -> Fenced:
    """Forbid the present incarnation to claim."""
    check_ttl(ttl)
    check_texts(name)
    worker = store.workers.get(name)
    if worker is None:
        return Fenced(known=False, leased=None)
    worker.fence = now + ttl
    return Fenced(known=True, leased=worker.leased)


def unfence(store: Store, now: float, name: str) -> bool:
    """Lift a fence; False: there was none."""
    check_texts(name)
    worker = store.workers.get(name)
    if worker is None or worker.state(now) is not WorkerState.FENCED:
        return False
    worker.fence = None
    store.alarm = 0.0  # it may be forgotten sooner now
    store.news.topics.update(store.active)
    return True


def forget(store: Store, now: float) -> None:
    """Drop workers without a sign of life for WORKER_TTL. A fenced one stays until its fence ends, or the fence
    would be lost on a worker that only stood still."""
    silent = []
    for worker in store.workers.values():
        if worker.seen + WORKER_TTL > now:
            break
        if worker.state(now) is WorkerState.ACTIVE:
            silent.append(worker.name)
    for name in silent:
        del store.workers[name]


def next_forgotten(store: Store) -> float | None:
    """When `forget` next drops a worker, at the earliest; None: there is none."""
    times = []
    for worker in store.workers.values():  # longest silent first
        silent = worker.seen + WORKER_TTL
        times.append(silent if worker.fence is None else max(silent, worker.fence))
        if worker.fence is None:
            break
    return min(times, default=None)


def rows(store: Store, now: float) -> tuple[WorkerRow, ...]:
    """The registry, by name."""
    return tuple(_row(store.workers[name], now) for name in sorted(store.workers))


def _row(worker: Worker, now: float) -> WorkerRow:
    state = worker.state(now)
    fenced = worker.fence is not None and state is WorkerState.FENCED
    return WorkerRow(
        name=worker.name,
        incarnation=worker.incarnation,
        state=state,
        seen=max(0.0, now - worker.seen),
        leased=worker.leased,
        info=worker.info,
        beat=worker.beat,
        fence_left=worker.fence - now if fenced and worker.fence is not None else None,
    )
