"""Calls of one broker object: connections shared between its threads, deadlines, and repeats that change nothing.

Every object has an id and every call a number. A call whose answer was lost is sent again under its number, and
the broker answers it from memory when it was carried out before.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from millgate.brokers.served import frames
from millgate.brokers.served.answers import opened
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.link import Hangup, Link
from millgate.brokers.served.waker import Waker
from millgate.clock import Clock
from millgate.errors import BrokerRefused, BrokerUnavailable, PayloadTooLarge
from millgate.shortage import of_files

_IDLE: Final = 4  # connections kept when nobody uses them
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_SLOW: Final = 10 * 2**20  # bytes a second that a large call may be on its way with
_GRACE: Final = 2.0  # seconds that an answer to a parked call may be late

#: Makes a link for a caller before a moment (monotonic seconds). Raises what keeps it from doing so.
Dial = Callable[[Caller, float], Link]
_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
_noticing = threading.Lock()


class Session:
    """What one broker object shares between its threads."""

    def __init__(
        self,
        dial: Dial,
        queue: str,
        deadline: float,
        clock: Clock,
        *,
        park: float = math.inf,
        patience: float | None = None,
    ) -> None:
        """`park`: seconds after which a wait is asked for again, where the other end can be lost without notice.
        `patience`: seconds after which a call is sent again, a part of the deadline unless given."""
        self._dial = dial
        self.deadline = deadline
        self.clock = clock
        # time for a repeat is left
        self._patience = patience or min(max(1.0, deadline / 3), deadline / 2)
        self._queue = queue
        self._closed = False
        self._grace = min(_GRACE, deadline)
        self._park = park
        self._fresh()
        _sessions.add(self)

    def call(self, verb: str, *args: Any) -> Any:
        """Ask the broker, again if need be, and answer what it answered. Raises its errors, or BrokerUnavailable."""
        number, payload = self._begin(verb, args)
        end = self.clock.monotonic() + self.deadline
        try:
            return self._repeat(number, payload, end)
        finally:
            self._forget(number)

    def park(self, verb: str, *args: Any, timeout: float, waker: Waker | None = None) -> Any:
        """Ask for something that the broker answers later, at the latest after `timeout` seconds.

        None: the time is over. True: `waker` was rung first.
        """
        now = self.clock.monotonic()
        end, last_seen, failures = now + max(0.0, timeout), now, 0
        while True:
            left = min(self._park, max(0.0, end - now))
            number, payload = self._begin(verb, (*args, left))
            try:
                answer = self._parked(number, payload, now + left, waker)
                if answer is not None or self.clock.monotonic() >= end:
                    return answer
                last_seen, failures = self.clock.monotonic(), 0
            except BrokerUnavailable:
                now = self.clock.monotonic()
                if now >= last_seen + self.deadline:
                    raise
                if now >= end:
                    return None  # the next call finds out whether the broker comes back
                failures += 1
                self._pause(failures, waker)
            finally:
                self._forget(number)
            if waker is not None and waker.rung():
                return True
            now = self.clock.monotonic()

    @property
    def waker(self) -> Waker:
        """What ends a parked call."""
        self._notice_fork()
        return self._waker

    def close(self) -> None:
        """Close what is idle; what is in use closes when it comes back."""
        self._closed = True
        self._drop_idle()
        self.waker.ring()

    def _fresh(self) -> None:
        """Begin as somebody new: at first, and in a forked child, which must not speak on its parent's connections."""
        self._lock = threading.Lock()
        self._idle: list[Link] = []
        self._outstanding: set[int] = set()
        self._number = 0
        self._waker = Waker()
        self._caller = Caller(secrets.token_hex(16), self._queue)
        self._pid = os.getpid()

    def forked(self) -> None:
        """Called in a forked child."""
        for link in self._idle:
            link.close()
        self._fresh()  # the bell too: a child must not wake its parent

    def _notice_fork(self) -> None:
        """Some servers fork without telling Python: what their child says under its parent's name, and the parent under
        the same number, would be taken for one call."""
        if self._pid != os.getpid():
            with _noticing:
                if self._pid != os.getpid():
                    self.forked()

    def _begin(self, verb: str, args: tuple[Any, ...]) -> tuple[int, bytes]:
        self._notice_fork()
        with self._lock:
            self._number += 1
            number = self._number
            self._outstanding.add(number)
            settled = min(self._outstanding)  # the broker need not remember answers before this one
        try:
            return number, _packed(number, settled, verb, args)
        except BaseException:
            self._forget(number)
            raise

    def _forget(self, number: int) -> None:
        with self._lock:
            self._outstanding.discard(number)

    def _repeat(self, number: int, payload: bytes, end: float) -> Any:
        failures = 0
        patience = self._patience + len(payload) / _SLOW
        while True:
            try:
                answer = self._attempt(number, payload, end, patience)
            except BrokerUnavailable:
                failures += 1
                self._pause(failures, None, end)
                if self._now() >= end:
                    raise
            else:
                return opened(answer)

    def _attempt(self, number: int, payload: bytes, end: float, patience: float) -> list[Any]:
        """One way there and back. Only what a link carries can be lost without a word: to come to one may take longer
        than `patience`, and so may an answer of which more and more comes."""
        link = self._take(end)
        try:
            link.send(payload, min(end, self._now() + patience))
            answer = _awaited(link, number, end, patience)
        except BaseException:
            link.close()
            self._drop_idle()  # what happened to one has most likely happened to all
            raise
        self._give(link)
        return answer

    def _parked(self, number: int, payload: bytes, end: float, waker: Waker | None) -> Any:
        connected = self._now() + self.deadline
        link = self._take(connected)
        try:
            link.send(payload, connected)
            last, answer = end + self._grace, None
            while answer is None:
                if waker is not None and not link.readable(waker.fileno(), last) and waker.rung():
                    # The broker forgets the parked call when the next one comes in on this connection.
                    waker.ring()
                    self._give(link)
                    return None
                silence = max(self._patience, last - self._now())
                answer = _next(link, number, last + self.deadline, silence)
        except BaseException:
            link.close()
            self._drop_idle()
            raise
        self._give(link)
        return opened(answer)

    def _take(self, end: float) -> Link:
        if self._closed:
            raise BrokerRefused("this broker object was closed; open another")
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._dial(self._caller, end)
        except OSError as error:  # of what is opened beside the connection itself
            raise BrokerUnavailable(
                f"no connection to the broker: {of_files(error) or error}"
            ) from error

    def _give(self, link: Link) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE and self._pid == os.getpid():
                self._idle.append(link)
                return
        link.close()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _pause(self, failures: int, waker: Waker | None, end: float | None = None) -> None:
        """Wait before the next attempt: not at all at first, then ever longer, and not in step with others."""
        if failures == 1:
            return
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 2, 10))
        seconds = longest * random.uniform(0.5, 1.0)  # noqa: S311 -- spreads load, protects nothing
        if end is not None:
            seconds = max(0.0, min(seconds, end - self._now()))
        if waker is None:
            self.clock.sleep(seconds)
        else:
            waker.wait(seconds)

    def _now(self) -> float:
        return self.clock.monotonic()


def _packed(number: int, settled: int, verb: str, args: tuple[Any, ...]) -> bytes:
    payload = frames.pack([number, settled, verb, args])
    if len(payload) > frames.CALL_BOUND:
        raise PayloadTooLarge(
            f"{verb} of {len(payload)} bytes; one call takes {frames.CALL_BOUND}, send fewer at once"
        )
    return payload


def _awaited(link: Link, number: int, end: float, silence: float) -> list[Any]:
    """The answer to a call; those to calls that were given up on this connection are passed over."""
    answer = None
    while answer is None:
        answer = _next(link, number, end, silence)
    return answer


def _next(link: Link, number: int, end: float, silence: float) -> list[Any] | None:
    """The next answer, if it is that to a call; None: it is a late one, to another call."""
    answer = frames.unpack(link.receive(end, silence))
    if not isinstance(answer, list) or len(answer) not in (2, 3):
        raise Hangup("the broker sent something that is no answer")
    return answer if answer[0] == number else None


def _in_child() -> None:
    for session in list(_sessions):
        session.forked()


os.register_at_fork(after_in_child=_in_child)
