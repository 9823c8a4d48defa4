"""Named locks with an end and a fencing number that grows with every grant."""

from __future__ import annotations

from millgate.brokers.base import Lock
from millgate.brokers.core.store import Held, Store
from millgate.rules import check_name, check_texts, check_ttl


def acquire(store: Store, now: float, name: str, holder: str, ttl: float) -> Lock | None:
    """Take a lock, or renew it when `holder` has it; None: somebody else has it."""
    check_ttl(ttl)
    check_name("a lock's name", name)
    check_name("a lock's holder", holder)
    held = store.locks.get(name)
    if held is not None and held.holder != holder:
        return None
    if held is None:
        store.grants += 1
        held = Held(holder, store.grants)
    _keep(store, now, name, held, ttl)
    return Lock(name, holder, held.fence, ttl)


def renew(store: Store, now: float, name: str, holder: str, fence: int, ttl: float) -> bool:
    """Keep a lock; False: it is not this grant's any more."""
    check_ttl(ttl)
    check_texts(name, holder)
    held = store.locks.get(name)
    if held is None or (held.holder, held.fence) != (holder, fence):
        return False
    _keep(store, now, name, held, ttl)
    return True


def release(store: Store, name: str, holder: str | None, fence: int | None) -> bool:
    """Give a lock back; what is None is not compared. False: it was not held so."""
    check_texts(name, holder)
    held = store.locks.get(name)
    if held is None:
        return False
    if (holder is not None and held.holder != holder) or (
        fence is not None and held.fence != fence
    ):
        return False
    store.locks.pop(name)
    return True


def locks(store: Store, now: float) -> list[Lock]:
    """All locks held now, by name."""
    found = [
        Lock(name, held.holder, held.fence, until - now)
        for name, held, until in store.locks.items()
    ]
    return sorted(found, key=lambda lock: lock.name)


def _keep(store: Store, now: float, name: str, held: Held, ttl: float) -> None:
    store.locks.set(name, held, now + ttl)
    store.alarm = min(store.alarm, now + ttl)
