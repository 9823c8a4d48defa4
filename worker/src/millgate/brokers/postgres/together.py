"""One question for all threads that ask at the same moment: while it is asked, the next one gathers.

An end wakes everybody in this process who waits. If each looked for itself, a hundred ends with a hundred who wait
would be ten thousand statements, on a hundred connections.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from copy import copy

from millgate.brokers.base import TaskState
from millgate.clock import Clock
from millgate.errors import BrokerUnavailable, MillgateError

#: The states of the first ids, in order, within so many seconds; the second ones, of those, are to be told of.
Ask = Callable[[Sequence[str], Sequence[str], float], Sequence[TaskState]]


class _Question:
    """Ids of several threads, and the answer to all of them."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self.awaited: dict[str, None] = {}
        self.asked = False
        self.known: dict[str, TaskState] = {}
        self.error: MillgateError | None = None

    def ask(self, ask: Ask, seconds: float) -> None:
        """Once; what goes wrong is told to all who joined."""
        self.asked = True
        self.error = BrokerUnavailable("the thread that asked for several was interrupted")
        try:
            states = ask(list(self.ids), list(self.awaited), seconds)
        except MillgateError as error:
            self.error = error
        else:
            self.known = dict(zip(self.ids, states, strict=True))
            self.error = None


class Together:
    """Of one process: what it has forked has another."""

    def __init__(self, ask: Ask, deadline: float, clock: Clock) -> None:
        self.process = os.getpid()
        self._ask = ask
        self._deadline = deadline
        self._clock = clock
        self._gathering = _Question()
        self._joining = threading.Lock()
        self._turn = threading.Lock()

    def states(self, ids: Sequence[str], *, awaited: bool = False) -> list[TaskState]:
        """What is known of each id, in order, at some moment from now on. `awaited`: the server is to tell of its end.

        Raises what the question raised, and BrokerUnavailable when no answer comes within the deadline.
        """
        end = self._clock.monotonic() + self._deadline
        with self._joining:
            mine = self._gathering
            mine.ids.update(dict.fromkeys(ids))
            if awaited:
                mine.awaited.update(dict.fromkeys(ids))
        if not self._turn.acquire(timeout=self._deadline):
            raise BrokerUnavailable("no answer in time, nor to those who asked before")
        try:
            if not mine.asked:
                with self._joining:
                    self._gathering = _Question()
                mine.ask(self._ask, max(0.05, end - self._clock.monotonic()))
        finally:
            self._turn.release()
        if mine.error is not None:
            raise copy(mine.error) from mine.error
        return [mine.known[name] for name in ids]
