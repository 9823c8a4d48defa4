"""The reference queue: every verb of the broker contract on plain data, deterministic, with `now` handed in.

No clock, lock, thread, socket or dice is inside, so a shell may wrap it with any of them, and a journal of
(now, verb, arguments) brings the same queue back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millgate.brokers import base
from millgate.brokers.core import (
    cancel,
    claim,
    configure,
    dead,
    lease,
    locks,
    look,
    publish,
    registry,
    results,
    schedules,
    settle,
    snapshot,
    stats,
    tick,
)
from millgate.brokers.core.store import News, Store
from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState
from millgate.message import ClaimRef, Group, Message, Receipt
from millgate.queues import Configuration, QueuePolicy, Subscription, TopicPolicy
from millgate.rules import check_texts
from millgate.settlement import Settlement
from millgate.stats import Stats


class Core:
    """One queue. `now` is seconds since 1970 and comes first in every verb; the rest is as in `brokers.base`.

    `salt` goes into every token: give each life of a queue whose claims may outlive it another one.
    """

    def __init__(self, salt: str = "") -> None:
        self.store = Store(salt)

    @property
    def now(self) -> float:
        """How far time has passed."""
        return self.store.now

    # --- for the shell around it -------------------------------------------------------------------

    def take_news(self) -> News:
        """What has happened since the last call that somebody may wait for; ask after every verb."""
        news = self.store.news
        if news:
            self.store.news = News()
        return news

    def stepped(self, by: float) -> None:
        """The clock behind `now` was set by that many seconds; leases and fences last as long as they would have."""
        tick.shift(self.store, by)

    def spare(self, by: float) -> None:
        """Nobody could be heard for so many seconds: leases, fences, locks, registrations last as much longer."""
        tick.spare(self.store, by)

    def tick(self, now: float) -> None:
        """Let happen what time brings about; every verb does."""
        tick.tick(self.store, now)

    @property
    def held(self) -> bool:
        """Whether somebody has what ends unless it is renewed: a lease, a lock, a fence."""
        store = self.store
        return bool(store.leased or store.locks) or any(
            worker.state(store.now) is WorkerState.FENCED for worker in store.workers.values()
        )

    def alarm(self) -> float:
        """Before this time nothing happens by itself."""
        return self.store.alarm

    def next_event(self) -> float | None:
        """When time alone next changes what others see; None: never. A shell sleeps until then."""
        return tick.next_event(self.store)

    def lapses(self, now: float) -> bool:
        """Whether a lease ends by then."""
        return tick.lapses(self.store, now)

    def claimable(self, now: float, subscription: Subscription) -> bool:
        """Whether a claim with this subscription would be given something."""
        return claim.claimable(self.store, tick.tick(self.store, now), subscription)

    def ready(self, now: float, subscription: Subscription) -> int:
        """How many messages claims with this subscription would be given now."""
        return claim.ready(self.store, tick.tick(self.store, now), subscription)

    def next_due(self, now: float, subscription: Subscription) -> float | None:
        """Seconds after which time alone may make something claimable; None: it will not."""
        return claim.next_due(self.store, tick.tick(self.store, now), subscription)

    def lets_start(self, name: str, subscription: Subscription) -> bool:
        """Whether a message that comes to this topic now is sure to be claimable by this subscription at once."""
        store = self.store
        topic = store.topics.get(name)
        return (
            topic is not None
            and topic.open
            and store.config.queue.limit is None
            and not store.config.queue.suspended
            and store.level(subscription, topic) is not None
        )

    def dump(self) -> dict[str, Any]:
        """The whole queue as plain values (msgpack can carry them)."""
        return snapshot.dump(self.store)

    def parts(self) -> dict[str, Any]:
        """What `dump` gives; those in `snapshot.LONG` are made an item at a time, of the queue as it is then."""
        return snapshot.parts(self.store)

    @classmethod
    def load(cls, value: Any) -> Core:
        """The queue that `dump` or `parts` gave. `value` is asked for the parts by name, each once, in their order."""
        core = cls()
        core.store = snapshot.load(value)
        return core

    # --- the verbs ---------------------------------------------------------------------------------

    def configure(
        self,
        now: float,
        topics: Sequence[TopicPolicy],
        queue: QueuePolicy | None = None,
        *,
        replace: bool = False,
    ) -> int:
        """Store policies; the revision."""
        return configure.configure(self.store, tick.tick(self.store, now), topics, queue, replace)

    def configuration(self) -> Configuration:
        """What is stored."""
        return self.store.config

    def publish(
        self, now: float, messages: Sequence[Message], group: Group | None = None
    ) -> list[Receipt]:
        """Store messages, all or none."""
        return publish.publish(self.store, tick.tick(self.store, now), messages, group)

    def register(self, now: float, worker: WorkerRef, info: WorkerInfo) -> None:
        """Enter the registry."""
        registry.register(self.store, tick.tick(self.store, now), worker, info)

    def unregister(self, now: float, worker: WorkerRef) -> None:
        """Leave the registry; claims go back uncharged."""
        check_texts(worker.name, worker.incarnation)
        registry.unregister(self.store, tick.tick(self.store, now), worker)

    def claim(
        self,
        now: float,
        worker: WorkerRef,
        ask: base.Ask,
        settlements: Sequence[Settlement] = (),
        call: str | None = None,
    ) -> base.Claimed:
        """Carry out settlements, then hand over messages. A repeat with the same `call` answers the same claims."""
        check_texts(worker.name, worker.incarnation)
        now = tick.tick(self.store, now)
        return claim.claim(self.store, now, worker, ask, settlements, call)

    def settle(self, now: float, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        """Carry out settlements; the stale ones' ids."""
        return settle.settle(self.store, tick.tick(self.store, now), settlements)

    def extend(
        self, now: float, worker: WorkerRef, claims: Sequence[ClaimRef], beat: Beat
    ) -> base.Extended:
        """Renew leases and the worker's row."""
        check_texts(worker.name, worker.incarnation)
        return lease.extend(self.store, tick.tick(self.store, now), worker, claims, beat)

    def progress(self, now: float, claimed: ClaimRef, value: bytes) -> bool:
        """Store the progress of a run; False: the token is stale."""
        tick.tick(self.store, now)
        row = lease.held(self.store, claimed)
        if row is None:
            return False
        row.progress = value
        return True

    def fence(self, now: float, worker: str, ttl: float) -> base.Fenced:
        """Forbid a worker to claim."""
        return registry.fence(self.store, tick.tick(self.store, now), worker, ttl)

    def unfence(self, now: float, worker: str) -> bool:
        """Lift a fence."""
        return registry.unfence(self.store, tick.tick(self.store, now), worker)

    def stats(self, now: float) -> Stats:
        """Topics and workers at one moment."""
        return stats.stats(self.store, tick.tick(self.store, now))

    def pause(self, now: float, topic: str, paused: bool) -> None:
        """Stop or resume claims from a topic by hand."""
        tick.tick(self.store, now)
        configure.pause(self.store, topic, paused)

    def states(self, now: float, ids: Sequence[str]) -> list[base.TaskState]:
        """What is known of each id."""
        tick.tick(self.store, now)
        check_texts(*ids)
        return results.states(self.store, ids)

    def peek(self, now: float, topic: str, state: base.State, limit: int = 20) -> list[base.Peeked]:
        """Look at messages where they lie."""
        check_texts(topic)
        return look.peek(self.store, tick.tick(self.store, now), topic, state, limit)

    def cancel(self, now: float, ids: Sequence[str]) -> list[base.CancelState]:
        """Remove what has not started; signal what runs."""
        check_texts(*ids)
        return cancel.cancel(self.store, tick.tick(self.store, now), ids)

    def requeue(self, now: float, ids: Sequence[str]) -> list[str]:
        """Take running messages from their holders."""
        check_texts(*ids)
        return cancel.requeue(self.store, tick.tick(self.store, now), ids)

    def purge(
        self,
        now: float,
        topic: str,
        states: Sequence[base.State] = (base.State.WAITING, base.State.DELAYED),
    ) -> int:
        """Remove a topic's messages in these states."""
        check_texts(topic)
        return cancel.purge(self.store, tick.tick(self.store, now), topic, states)

    def dead(
        self, now: float, topic: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[base.DeadLetter]:
        """Dead letters, newest first."""
        tick.tick(self.store, now)
        check_texts(topic, after)
        return dead.page(self.store, topic, limit, after)

    def dead_letter(self, now: float, id: str) -> base.DeadLetter | None:  # noqa: A002 -- everywhere
        """One dead letter."""
        tick.tick(self.store, now)
        check_texts(id)
        found = self.store.dead.get(id)
        return None if found is None else dead.letter(found)

    def replay(self, now: float, ids: Sequence[str]) -> list[str]:
        """Let dead letters wait again."""
        check_texts(*ids)
        return dead.replay(self.store, tick.tick(self.store, now), ids)

    def purge_dead(
        self, now: float, topic: str | None = None, ids: Sequence[str] | None = None
    ) -> int:
        """Forget dead letters."""
        tick.tick(self.store, now)
        check_texts(topic, *(ids or ()))
        return dead.purge(self.store, topic, ids)

    def acquire(self, now: float, name: str, holder: str, ttl: float) -> base.Lock | None:
        """Take or renew a lock."""
        return locks.acquire(self.store, tick.tick(self.store, now), name, holder, ttl)

    def renew(self, now: float, name: str, holder: str, fence: int, ttl: float) -> bool:
        """Keep a lock."""
        return locks.renew(self.store, tick.tick(self.store, now), name, holder, fence, ttl)

    def release(
        self, now: float, name: str, holder: str | None = None, fence: int | None = None
    ) -> bool:
        """Give a lock back."""
        tick.tick(self.store, now)
        return locks.release(self.store, name, holder, fence)

    def locks(self, now: float) -> list[base.Lock]:
        """All locks held now."""
        return locks.locks(self.store, tick.tick(self.store, now))

    def fire(self, now: float, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        """Publish for one slot of a schedule, once."""
        return schedules.fire(self.store, tick.tick(self.store, now), schedule, slot, messages)

    def schedules(self) -> Mapping[str, float]:
        """The last slot that each schedule fired."""
        return dict(self.store.slots)
