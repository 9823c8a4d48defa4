"""Waiting: for work and for results, woken by the server where it can, by looking where it cannot."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from millgate.brokers.base import TaskState
from millgate.brokers.postgres.arrays import Ints, Texts
from millgate.brokers.postgres.listener import Listener
from millgate.brokers.postgres.looking import Looking
from millgate.brokers.postgres.url import Target
from millgate.brokers.postgres.working import Working
from millgate.clock import Clock
from millgate.queues import Subscription

#: Seconds between looks: while notifications arrive, and while they do not.
_LOOK: Final = 1.0
_POLL: Final = 0.5
#: After going to sleep: whoever published while we did so has committed by now.
_SECOND_LOOK: Final = 0.02
#: Our word that we sleep is good for so long; then it is left anew, as if we had just gone to sleep.
_WORD: Final = 5.0


class Waiting(Working, Looking):
    """The verbs that block."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        super().__init__(target, deadline, clock)
        self._listener: Listener | None = None
        self._interrupt = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asleep: tuple[Subscription, float] | None = None  # the token that we left, and when

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        """Block until something may have become claimable, at most `timeout` seconds."""
        end = self.clock.monotonic() + timeout
        listener = self.listener()
        second = not self._left_token(subscription)
        woken = self._drained(self._interrupt)
        while not woken:
            self._drained(listener.work)
            claimable, next_due = self._look(listener, subscription)
            if claimable:
                return True
            left = end - self.clock.monotonic()
            if left <= 0:
                return False
            second = second and listener.connected
            pause = _SECOND_LOOK if second else _LOOK if listener.connected else _POLL
            second = False
            if next_due is not None:
                pause = min(pause, max(next_due, _SECOND_LOOK))
            woken = self._sleep(listener, min(pause, left))
            if not woken and self.clock.monotonic() >= end:
                return False
        self._asleep = None
        return True

    def asleep(self) -> int | None:
        """The number of the listener that has left word that it sleeps."""
        if self._asleep is None or self._listener is None:
            return None
        return self._listener.number

    def awake(self) -> None:
        """Work was found: that word is taken back."""
        self._asleep = None

    def interrupt(self) -> None:
        """Make a `wait_for_work` return now, or the next one return at once. Safe in signal handlers."""
        with suppress(OSError):
            os.eventfd_write(self._interrupt, 1)

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        """Block until at least one of the ids is final, at most `timeout` seconds; then as `states`."""
        end = self.clock.monotonic() + timeout
        known = self.states(ids)
        if not ids or timeout <= 0 or any(state.state.final for state in known):
            return known
        listener = self.listener()
        self.rows("await", listener.number, Texts(ids))
        pause = _SECOND_LOOK
        try:
            while True:
                generation = listener.generation
                known = self.states(ids)
                left = end - self.clock.monotonic()
                if left <= 0 or any(state.state.final for state in known):
                    return known
                listener.wait_ended(generation, min(pause, left))
                pause = min(2 * pause, _LOOK) if listener.connected else min(2 * pause, _POLL)
        finally:
            if not any(state.state.final for state in known):
                self.rows("unawait", listener.number, Texts(ids))

    def listener(self) -> Listener:
        """The listener, listening."""
        if self._listener is None:
            self._listener = Listener(self.pool, self.target.schema)
        self._listener.start()
        return self._listener

    def close(self) -> None:
        """Free what this object holds."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.pool.close()
        os.close(self._interrupt)

    def _look(self, listener: Listener, subscription: Subscription) -> tuple[bool, float | None]:
        numbers, _ = self.selected(subscription)
        column = Ints(numbers) if numbers is not None else None
        self._ticked = self._kept_up = self.clock.monotonic()
        number = listener.number if listener.connected else None
        [(claimable, next_due, forward, version)] = self.rows("tick", number, column)
        self._asleep = (subscription, self._ticked) if number is not None else None
        if forward:
            self.forward()
        if numbers is not None and version != self.topics.version:
            self.refresh()
            return self._look(listener, subscription)
        return claimable, next_due

    def _left_token(self, subscription: Subscription) -> bool:
        if self._asleep is None:
            return False
        left, when = self._asleep
        return left == subscription and self.clock.monotonic() - when < _WORD

    def _sleep(self, listener: Listener, seconds: float) -> bool:
        """Whether somebody woke us."""
        readable, _, _ = select.select([self._interrupt, listener.work], [], [], seconds)
        if self._interrupt in readable:
            self._drained(self._interrupt)
        return bool(readable)

    @staticmethod
    def _drained(descriptor: int) -> bool:
        try:
            os.eventfd_read(descriptor)
        except BlockingIOError:
            return False
        return True
