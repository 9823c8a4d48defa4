"""Waiting: for work and for results, woken by the server where it can, by looking where it cannot."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from typing import Final, NamedTuple

from millgate.brokers.base import TaskState
from millgate.brokers.postgres.arrays import Ints, Texts
from millgate.brokers.postgres.bell import Bell
from millgate.brokers.postgres.listener import Listener
from millgate.brokers.postgres.looking import Looking
from millgate.brokers.postgres.together import Together
from millgate.brokers.postgres.url import Target
from millgate.brokers.postgres.working import Working
from millgate.clock import Clock
from millgate.queues import Subscription
from millgate.rules import check_texts

#: Seconds between looks: while notifications arrive, and while they do not.
_LOOK: Final = 1.0
_POLL: Final = 0.5
#: Pauses after word was left that we sleep, the last one first: who published meanwhile has committed by then.
_SOON: Final = (0.15, 0.02)


class Look(NamedTuple):
    """What the server answers to a tick."""

    claimable: bool
    next_due: float | None
    forward: bool
    topics: int
    left: bool


class Waiting(Working, Looking):
    """The verbs that block."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        super().__init__(target, deadline, clock)
        self._listener: Listener | None = None
        self._together = self._new_together()
        self._interrupt = Bell()
        self._asleep = False  # word was left that we sleep

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        """Block until something may have become claimable, at most `timeout` seconds."""
        end = self.clock.monotonic() + timeout
        listener = self.listener()
        woken = self._interrupt.rung()
        soon: list[float] = []  # looks that follow a word just left
        while not woken:
            listener.work.rung()
            look = self._look(listener, subscription)
            if look.claimable:
                return True
            left = end - self.clock.monotonic()
            if left <= 0:
                return False
            if look.left:
                soon = [*_SOON]
            pause = soon.pop() if soon else _LOOK if listener.connected else _POLL
            if look.next_due is not None:
                pause = min(pause, max(look.next_due, _SOON[-1]))
            woken = self._sleep(listener, min(pause, left))
            if not woken and self.clock.monotonic() >= end:
                return False
        self._asleep = False
        return True

    def asleep(self) -> int | None:
        """The number of the listener that has left word that it sleeps."""
        return self._listener.number if self._asleep and self._listener is not None else None

    def awake(self) -> None:
        """Work was found: that word is taken back."""
        self._asleep = False

    def interrupt(self) -> None:
        """Make a `wait_for_work` return now, or the next one return at once. Safe in signal handlers."""
        self._interrupt.ring()

    def states(self, ids: Sequence[str]) -> list[TaskState]:
        """What is known of each id, in order. Threads that ask at the same moment ask together."""
        check_texts(*ids)  # or others would be refused with this one
        return self._at_once().states(ids) if ids else []

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        """Block until at least one of the ids is final, at most `timeout` seconds; then as `states`."""
        end = self.clock.monotonic() + timeout
        known = self.states(ids)
        if not ids or timeout <= 0 or any(state.state.final for state in known):
            return known
        listener, together = self.listener(), self._at_once()
        pause, told = _SOON[-1], False
        try:
            while True:
                generation = listener.generation
                known = together.states(ids, awaited=not told)
                told = True
                left = end - self.clock.monotonic()
                if left <= 0 or any(state.state.final for state in known):
                    return known
                listener.wait_ended(generation, min(pause, left))
                pause = min(2 * pause, _LOOK) if listener.connected else min(2 * pause, _POLL)
        finally:
            if not any(state.state.final for state in known):
                self.rows("unawait", listener.number, Texts(ids))

    def _at_once(self) -> Together:
        # a thread that is not here may have held its locks
        if self._together.process != os.getpid():
            self._together = self._new_together()
        return self._together

    def _new_together(self) -> Together:
        def ask(ids: Sequence[str], awaited: Sequence[str], seconds: float) -> list[TaskState]:
            if awaited:
                self.rows("await", self.listener().number, Texts(awaited), deadline=seconds)
            return self.look(ids, seconds)

        return Together(ask, self.pool.deadline, self.clock)

    def listener(self) -> Listener:
        """The listener, listening."""
        self.pool.check_open()
        if self._listener is None or self._listener.inherited:  # a forked child listens for itself
            self._listener = Listener(self.pool, self.target.schema)
        self._listener.start()
        return self._listener

    def close(self) -> None:
        """Free what this object holds; who waits in another thread returns."""
        self.pool.close()
        self._interrupt.ring()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _look(self, listener: Listener, subscription: Subscription) -> Look:
        known, numbers, _ = self.selected(subscription)
        column = Ints(numbers) if numbers is not None else None
        self._ticked = self._kept_up = self.clock.monotonic()
        number = listener.number if listener.connected else None
        look = Look(*self.rows("tick", number, column)[0])
        self._asleep = number is not None
        if look.forward:
            self.catch_up()
        if numbers is not None and look.topics != known:
            if look.topics != self.topics.version:  # no other thread was quicker
                self.refresh()
            return self._look(listener, subscription)
        return look

    def _sleep(self, listener: Listener, seconds: float) -> bool:
        """Whether somebody woke us."""
        readable, _, _ = select.select([self._interrupt, listener.work], [], [], seconds)
        if self._interrupt in readable:
            self._interrupt.rung()
        return bool(readable)
