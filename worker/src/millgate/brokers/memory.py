"""The broker inside one process: the reference queue behind a lock, with a clock and waiting that is woken.

For unit tests and single-process programs. `memory://` is a queue of its own for every open; `memory://NAME` is
shared by name within the process. Nothing is kept when the process ends.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import urlsplit

from millgate.brokers import base
from millgate.brokers.core import Core
from millgate.clock import Clock, SystemClock
from millgate.fleet import Beat, WorkerInfo, WorkerRef
from millgate.message import ClaimRef, Group, Message, Receipt
from millgate.queues import Configuration, QueuePolicy, Subscription, TopicPolicy
from millgate.settlement import Settlement
from millgate.stats import Stats

T = TypeVar("T")
#: Seconds by which wall and monotonic time may drift apart before it is called a step.
_STEP: Final = 1.0
_SLICE: Final = 0.02  # a clock that is turned by hand tells nobody; look at it that often

_shared: dict[tuple[str, str], Shared] = {}
_every: weakref.WeakSet[Shared] = weakref.WeakSet()
_shared_lock = threading.RLock()
_held: list[Shared] = []  # while this process forks


class Shared:
    """One queue of this process, whoever opened it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.core = Core()
        self.changed = threading.Condition(threading.RLock())
        self._offset = self.clock.now() - self.clock.monotonic()
        with _shared_lock:
            _every.add(self)

    def now(self) -> float:
        """The queue's time. A wall clock that was set moves leases along, so that none lapses by it."""
        wall, monotonic = self.clock.now(), self.clock.monotonic()
        by = wall - monotonic - self._offset
        if abs(by) > _STEP:
            self._offset += by
            self.core.stepped(by)
        return wall

    def do(self, verb: Callable[[float], T]) -> T:
        """Carry out a verb as one step, and wake whoever waited for what it brought."""
        with self.changed:
            try:
                return verb(self.now())
            finally:
                if self.core.take_news():
                    self.changed.notify_all()

    def wait_until(
        self,
        ready: Callable[[float], bool],
        next_in: Callable[[float], float | None],
        timeout: float,
    ) -> bool:
        """Block until `ready`, at most `timeout` seconds; looks again when woken and after `next_in` seconds."""
        real = SystemClock()  # waiting takes real time, also beside a clock that is turned by hand
        turned = not isinstance(self.clock, SystemClock)
        end, turned_end = real.monotonic() + timeout, self.clock.monotonic() + timeout
        with self.changed:
            while not ready(now := self.now()):
                left = min(end - real.monotonic(), turned_end - self.clock.monotonic())
                if left <= 0:
                    return False
                soon = next_in(now)
                left = left if soon is None else min(left, max(soon, 0.001))
                self.changed.wait(min(left, _SLICE) if turned else left)
            return True


class MemoryBroker:
    """One view of a queue in this process; `wait_for_work` and `interrupt` belong to the view."""

    def __init__(self, shared: Shared | None = None, *, clock: Clock | None = None) -> None:
        self._shared = shared or Shared(clock)
        self._interrupted = False

    @property
    def core(self) -> Core:
        """The queue itself, for tests that look inside."""
        return self._shared.core

    def sibling(self) -> MemoryBroker:
        """Another view of the same queue, as a second client has it."""
        return MemoryBroker(self._shared)

    # --- preparing ---------------------------------------------------------------------------------

    def setup(self) -> None:
        """Nothing is stored anywhere, so nothing is prepared."""

    def server(self) -> base.Server:
        """This process."""
        return base.Server(kind="memory", endpoint="memory://")

    def configure(
        self,
        topics: Sequence[TopicPolicy],
        queue: QueuePolicy | None = None,
        *,
        replace: bool = False,
    ) -> int:
        core = self.core
        return self._shared.do(lambda now: core.configure(now, topics, queue, replace=replace))

    def configuration(self) -> Configuration:
        return self._shared.do(lambda _: self.core.configuration())

    # --- producing ---------------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        return self._shared.do(lambda now: self.core.publish(now, messages, group))

    # --- working -----------------------------------------------------------------------------------

    def register(self, worker: WorkerRef, info: WorkerInfo) -> None:
        self._shared.do(lambda now: self.core.register(now, worker, info))

    def unregister(self, worker: WorkerRef) -> None:
        self._shared.do(lambda now: self.core.unregister(now, worker))

    def claim(
        self, worker: WorkerRef, ask: base.Ask, settlements: Sequence[Settlement] = ()
    ) -> base.Claimed:
        return self._shared.do(lambda now: self.core.claim(now, worker, ask, settlements))

    def settle(self, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        return self._shared.do(lambda now: self.core.settle(now, settlements))

    def extend(self, worker: WorkerRef, claims: Sequence[ClaimRef], beat: Beat) -> base.Extended:
        return self._shared.do(lambda now: self.core.extend(now, worker, claims, beat))

    def progress(self, claim: ClaimRef, value: bytes) -> bool:
        return self._shared.do(lambda now: self.core.progress(now, claim, value))

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        core = self.core
        woken = self._shared.wait_until(
            lambda now: self._interrupted or core.claimable(now, subscription),
            lambda now: core.next_due(now, subscription),
            timeout,
        )
        with self._shared.changed:
            self._interrupted = False
        return woken

    def interrupt(self) -> None:
        with self._shared.changed:
            self._interrupted = True
            self._shared.changed.notify_all()

    # --- steering ----------------------------------------------------------------------------------

    def fence(self, worker: str, ttl: float) -> base.Fenced:
        return self._shared.do(lambda now: self.core.fence(now, worker, ttl))

    def unfence(self, worker: str) -> bool:
        return self._shared.do(lambda now: self.core.unfence(now, worker))

    def stats(self) -> Stats:
        return self._shared.do(self.core.stats)

    def pause(self, topic: str, paused: bool) -> None:
        self._shared.do(lambda now: self.core.pause(now, topic, paused))

    # --- looking up --------------------------------------------------------------------------------

    def states(self, ids: Sequence[str]) -> list[base.TaskState]:
        return self._shared.do(lambda now: self.core.states(now, ids))

    def wait(self, ids: Sequence[str], timeout: float) -> list[base.TaskState]:
        core = self.core

        def ended(now: float) -> bool:
            return not ids or any(known.state.final for known in core.states(now, ids))

        self._shared.wait_until(ended, lambda now: core.alarm() - now, timeout)
        return self.states(ids)

    def peek(self, topic: str, state: base.State, limit: int = 20) -> list[base.Peeked]:
        return self._shared.do(lambda now: self.core.peek(now, topic, state, limit))

    # --- administration ----------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str]) -> list[base.CancelState]:
        return self._shared.do(lambda now: self.core.cancel(now, ids))

    def requeue(self, ids: Sequence[str]) -> list[str]:
        return self._shared.do(lambda now: self.core.requeue(now, ids))

    def purge(
        self,
        topic: str,
        states: Sequence[base.State] = (base.State.WAITING, base.State.DELAYED),
    ) -> int:
        return self._shared.do(lambda now: self.core.purge(now, topic, states))

    def dead(
        self, topic: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[base.DeadLetter]:
        return self._shared.do(lambda now: self.core.dead(now, topic, limit, after))

    def dead_letter(self, id: str) -> base.DeadLetter | None:  # noqa: A002 -- as in the protocol
        return self._shared.do(lambda now: self.core.dead_letter(now, id))

    def replay(self, ids: Sequence[str]) -> list[str]:
        return self._shared.do(lambda now: self.core.replay(now, ids))

    def purge_dead(self, topic: str | None = None, ids: Sequence[str] | None = None) -> int:
        return self._shared.do(lambda now: self.core.purge_dead(now, topic, ids))

    # --- locks and schedules -----------------------------------------------------------------------

    def acquire(self, name: str, holder: str, ttl: float) -> base.Lock | None:
        return self._shared.do(lambda now: self.core.acquire(now, name, holder, ttl))

    def renew(self, name: str, holder: str, fence: int, ttl: float) -> bool:
        return self._shared.do(lambda now: self.core.renew(now, name, holder, fence, ttl))

    def release(self, name: str, holder: str | None = None, fence: int | None = None) -> bool:
        return self._shared.do(lambda now: self.core.release(now, name, holder, fence))

    def locks(self) -> list[base.Lock]:
        return self._shared.do(self.core.locks)

    def fire(self, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        return self._shared.do(lambda now: self.core.fire(now, schedule, slot, messages))

    def schedules(self) -> Mapping[str, float]:
        return self._shared.do(lambda _: self.core.schedules())

    # --- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing is held that others would miss."""


def open(url: str, queue: str, deadline: float) -> MemoryBroker:  # noqa: A001, ARG001 -- as every driver
    """`memory://`: a queue of its own; `memory://NAME`: the one of that name in this process."""
    name = _name(url)
    if not name:
        return MemoryBroker()
    with _shared_lock:
        return MemoryBroker(_shared.setdefault((name, queue), Shared()))


def there(url: str, queue: str) -> bool:
    """Whether somebody in this process has opened the queue that the URL names."""
    with _shared_lock:
        return (_name(url), queue) in _shared


def _name(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc + parts.path


def _before_fork() -> None:
    """Let nobody be in the middle of a verb: in the child, which has a copy of its own, that would be so for ever."""
    _shared_lock.acquire()
    _held.extend(_every)
    for shared in _held:
        shared.changed.acquire()


def _after_fork() -> None:
    for shared in _held:
        shared.changed.release()
    _held.clear()
    _shared_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
