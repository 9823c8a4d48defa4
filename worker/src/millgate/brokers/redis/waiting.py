"""Waiting: for work and for results, by one blocking pop each; looking again now and then is the safety net."""

from __future__ import annotations

import json
import os
import random
import ssl
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2s
from typing import Final

from millgate.brokers.base import TaskState
from millgate.brokers.redis.connection import Connection, Lost, Refused, Strange
from millgate.brokers.redis.looking import PAGE, Looking, task_state
from millgate.brokers.redis.url import Target
from millgate.clock import Clock
from millgate.errors import BrokerError
from millgate.queues import Subscription

#: Seconds between looks: a bell that was rung for a worker that died right then is made up for by the next look.
#: With the signs of life every five seconds, an idle worker stays below one command a second.
_LOOK: Final = 3.0
_ANSWER: Final = 5.0  # seconds within which an idle connection must do what it is told


class Waiting(Looking):
    """The verbs that block."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        super().__init__(target, deadline, clock)
        self._number = f"{random.getrandbits(62):x}"
        self._interrupt = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._interrupt)  # not before: a thread may wait for it
        self._answer = min(_ANSWER, deadline / 2)
        self._bell: Connection | None = None
        self._bell_pid = os.getpid()
        self._one = threading.Lock()  # one waiter per object has the connection

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        """Block until something may have become claimable, at most `timeout` seconds."""
        end = self.clock.monotonic() + timeout
        if not self._one.acquire(timeout=max(0.0, timeout)):
            return False  # another thread of this object waits for the same
        try:
            if self._drained():
                return True
            while True:
                hit, due = self._look(subscription)
                left = end - self.clock.monotonic()
                if hit or left <= 0:
                    return hit
                pause = min(_LOOK, left) if due is None else min(_LOOK, left, max(due, 0.002))
                woken = self._sleep(f"bell:{_name(subscription)}", pause)
                if woken and woken != b"look":
                    return True
                if self.clock.monotonic() >= end:
                    return self._look(subscription)[0] if due is not None and due <= left else False
        finally:
            self._one.release()

    def interrupt(self) -> None:
        """Make a `wait_for_work` return now, or the next one return at once. Safe in signal handlers."""
        with suppress(OSError):
            os.eventfd_write(self._interrupt, 1)

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        """Block until at least one of the ids is final, at most `timeout` seconds; then as `states`."""
        end = self.clock.monotonic() + timeout
        if not ids or timeout <= 0:
            return self.states(ids)
        name = f"{self._number}{random.getrandbits(62):x}"
        asked = list(dict.fromkeys(ids))
        while True:
            known = self._await(name, asked, end)
            left = end - self.clock.monotonic()
            if left <= 0 or any(known[id_].state.final for id_ in asked):
                if not any(known[id_].state.final for id_ in asked):
                    self.run("unawait", name, *asked)
                return [known[id_] for id_ in ids]
            self._pop(f"done:{name}", min(left, _LOOK))

    def close(self) -> None:
        """Free what this object holds; who waits in another thread returns."""
        self.pool.close()
        self.interrupt()
        if self._one.acquire(timeout=self.pool.deadline):
            self._bell_broke()
            self._one.release()

    def _await(self, name: str, ids: Sequence[str], end: float) -> dict[str, TaskState]:
        left = max(0.1, end - self.clock.monotonic()) + 5
        known: dict[str, TaskState] = {}
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            answers, forward = self.run("states", name, f"{left:.3f}", *page)
            known |= zip(page, map(task_state, page, answers), strict=True)
            if forward:
                self.forward()
        return known

    def _look(self, subscription: Subscription) -> tuple[bool, float | None]:
        """Whether something is claimable, and the seconds until time alone may change that; bells ring from now."""
        while True:
            asked, chosen = self.selected(subscription)
            hit, due, version, forward = self.run("look", _name(subscription), asked, *chosen)
            if forward:
                self.forward()
            if chosen == ["-1"] or version.decode() == asked:
                return bool(hit), float(due) / 1000 if due else None
            if version.decode() != self.topics.version:  # no other thread was quicker
                self.refresh()

    def _sleep(self, bell: str, seconds: float) -> bytes | None:
        """Wait for the bell or an interrupt; the token, None when there was none."""
        own = f"{self.target.prefix}wake:{self._number}"
        keys = (self.target.prefix + bell, own)
        end = self.clock.monotonic() + seconds
        until, interrupted = end + self._answer, False
        try:
            connection = self._bell_connection(end)
            connection.send("BLPOP", *keys, f"{max(seconds, 0.002):.3f}", until=until)
            readable = connection.ready([self._interrupt], seconds + self._answer)
            if self._interrupt in readable:
                interrupted = self._drained()
                # end the pop, lest it take a bell from others
                if connection.fileno() not in readable:
                    self.pool.call("interrupt", ("RPUSH", own, "1"))
                    until = self.clock.monotonic() + self._answer
                    self._heard(connection.read(until), own, bell)
                    return own.encode()
            reply = connection.read(until)
        except (Lost, Refused, Strange, ssl.SSLError, BrokerError):
            # the next look says what is wrong, if it still is
            self._bell_broke()
            if interrupted:
                return own.encode()
            self._rest(end)
            return None
        if interrupted:
            return own.encode()
        return None if reply is None else bytes(reply[1])

    def _heard(self, reply: list[bytes] | None, own: str, bell: str) -> None:
        """A pop was ended: a bell that came first is rung again for the others."""
        if reply is not None and reply[0] != own.encode():
            self.pool.call("interrupt", ("RPUSH", self.target.prefix + bell, "1"))
            self.pool.call("interrupt", ("DEL", own))

    def _bell_connection(self, end: float) -> Connection:
        if self._bell is None or self._bell.closed or self._bell_pid != os.getpid():
            self._bell_pid = os.getpid()
            self._bell = self.pool.take(max(end, self.clock.monotonic() + 1.0))
        return self._bell

    def _bell_broke(self) -> None:
        if self._bell is not None:
            self._bell.close()
            self._bell = None

    def _rest(self, end: float) -> None:
        """Wait a little where nothing rings, so that a broken server is not asked in a loop."""
        self.clock.sleep(max(0.0, min(0.1, end - self.clock.monotonic())))

    def _pop(self, key: str, seconds: float) -> None:
        """Block on one key, on a connection of its own."""
        end = self.clock.monotonic() + seconds
        connection: Connection | None = None
        try:
            connection = self.pool.take(end + 1.0)
            connection.run(
                "BLPOP",
                self.target.prefix + key,
                f"{max(seconds, 0.002):.3f}",
                until=end + self._answer,
            )
        except (Lost, Refused, Strange, ssl.SSLError, BrokerError) as error:
            self.pool.drop(connection, error)
            self._rest(end)
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        else:
            self.pool.keep(connection)

    def _drained(self) -> bool:
        try:
            os.eventfd_read(self._interrupt)
        except BlockingIOError:
            return False
        return True


def _name(subscription: Subscription) -> str:
    """The bell of a subscription: those that want the same share one."""
    if not (subscription.include or subscription.exclude):
        return "*"
    whole = json.dumps([sorted(subscription.include), sorted(subscription.exclude)])
    return blake2s(whole.encode(), digest_size=8).hexdigest()
