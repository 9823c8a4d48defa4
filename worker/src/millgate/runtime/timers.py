"""Fires the schedules that the app declares: each slot once in the fleet, since the broker decides who is first."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from millgate.clock import Clock, written
from millgate.errors import BrokerError, MillgateError
from millgate.runtime.connection import Connection
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.spec import TaskWire

#: Seconds between two looks, at most: another worker may have fired what this one waits for.
_LOOK: Final = 30.0
_RETRY: Final = 2.0
#: Seconds by which the clocks of a fleet's machines may differ without a word.
_AHEAD: Final = 60.0


class Timers:
    """Runs in a thread of its own, which is started when the app has a schedule."""

    def __init__(
        self, connection: Connection, journal: Journal, metrics: Metrics, clock: Clock
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._metrics = metrics
        self._clock = clock
        self._tasks: dict[str, TaskWire] = {}
        self._since: dict[str, float] = {}
        self._doubted: dict[str, float] = {}  # slots of which it was said that they lie ahead
        self._bell = threading.Event()
        self._stopping = False

    def know(self, tasks: Mapping[str, TaskWire]) -> bool:
        """The app's tasks; answers whether there is a schedule among them."""
        now = self._clock.now()
        scheduled = {name: task for name, task in tasks.items() if task.schedule is not None}
        for name in scheduled:
            self._since.setdefault(name, now)
        self._tasks = scheduled  # the thread may look at once
        self._bell.set()
        return bool(self._tasks)

    def stop(self) -> None:
        """Fire nothing any more."""
        self._stopping = True
        self._bell.set()

    def run(self) -> None:
        """Look, fire, sleep until the next slot."""
        while not self._stopping:
            self._bell.clear()
            try:
                wait = self.fire_due(self._clock.now())
            except BrokerError as error:
                self._journal.say("warning", "schedules wait for the broker", error=str(error))
                wait = _RETRY
            self._bell.wait(wait)

    def fire_due(self, now: float) -> float:
        """Fire what is due; answers the seconds until the next look. Raises BrokerError."""
        fired = self._connection.broker.schedules()
        wait = _LOOK
        for name, task in self._tasks.items():
            assert task.schedule is not None
            # not after now: the clock may have been set back since the app was known
            since = fired.get(name, min(now, self._since[name]))
            self._doubt(name, since, now)
            for slot in task.schedule.due(since, now):
                self._fire(name, task, slot)
                since = max(since, slot)
            self._since[name] = since
            following = task.schedule.next(max(since, now))
            if following is not None:
                wait = min(wait, max(0.0, following - self._clock.now()))
        return wait + 0.001

    def _doubt(self, name: str, fired: float, now: float) -> None:
        """Say it, once, when a schedule is ahead of this machine: until then it is silent in the whole fleet."""
        if fired > now + _AHEAD and self._doubted.get(name) != fired:
            self._doubted[name] = fired
            self._journal.say(
                "error",
                "schedule has fired for a time to come; it waits until then",
                task=name,
                slot=written(fired),
                seconds=round(fired - now),
                problem="the clock of this machine, or of one that fired it, is or was wrong",
            )

    def _fire(self, name: str, task: TaskWire, slot: float) -> None:
        try:
            first = self._connection.broker.fire(name, slot, [task.scheduled(slot)])
        except BrokerError:
            raise
        except MillgateError as error:  # a full queue, an undeclared topic: this slot is gone
            self._journal.say(
                "error", "schedule refused", task=name, slot=written(slot), error=str(error)
            )
            return
        if first:
            self._metrics.add("millgate_schedule_fired_total", task=name)
            self._journal.say("info", "schedule fired", task=name, slot=written(slot))
