"""One job at a time, in the main thread: timeouts interrupt anything, and a kill hits one task. The way of one slot."""

from __future__ import annotations

import signal

from millgate import execute
from millgate.errors import SoftTimeout
from millgate.execute import Job
from millgate.hints import Any
from millgate.outcome import Outcome
from millgate.runtime.station import Station
from millgate.runtime.table import LOOK


class Solo:
    """Runs plain tasks directly, coroutines in a loop that it keeps. asyncio is imported only if the app needs it."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._running = 0  # the number that may be interrupted; 0: none
        self._told = False
        self._loop: Any = None
        self._coroutine: Any = None  # its asyncio task
        self._blocked: Any = None

    def begin(self) -> None:
        """Run the app's on_start hooks. Raises what they raise."""
        signal.signal(LOOK, self._look)
        app = self._station.app
        if not app.needs_loop:
            self._station.context.run(execute.start, app)
            return
        import asyncio

        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        from millgate.runtime.blocked import Blocked

        self._blocked = Blocked(self._station, self._loop)
        self._station.run_hooks(self._loop, execute.start_async(app))

    def work(self) -> None:
        """Until the supervisor wants no more."""
        link = self._station.link
        while True:
            jobs = link.next_jobs()
            if jobs is None:
                return
            for fields in jobs:
                self._one(fields)

    def end(self) -> None:
        """Run the app's on_stop hooks. Raises what they raise."""
        app = self._station.app
        if self._loop is None:
            self._station.context.run(execute.stop, app)
            return
        try:
            self._station.run_hooks(self._loop, execute.stop_async(app))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _one(self, fields: list[Any]) -> None:
        station = self._station
        began = station.clock.monotonic()
        taken = station.take(fields, began)
        if taken is None:
            return
        seq, job = taken
        outcome = station.guarded(seq, self._run, job) if isinstance(job, Job) else job
        self._running = 0
        station.report(seq, outcome, began, more=True)

    def _run(self, seq: int, job: Job) -> Outcome:
        self._told = False
        if self._loop is None or not self._station.is_async(job):
            self._running = seq
            try:
                return self._station.run(seq, job)
            finally:
                self._running = 0
        return self._run_async(seq, job)

    def _run_async(self, seq: int, job: Job) -> Outcome:
        station = self._station
        made = execute.run_async(station.app, job, station.around(seq))
        self._coroutine = self._loop.create_task(made, context=station.context.copy())
        self._blocked.enter(self._coroutine, seq)
        self._running = seq
        try:
            outcome: Outcome = self._loop.run_until_complete(self._coroutine)
        except BaseException:
            self._see_off(self._coroutine)
            raise
        else:
            return outcome
        finally:
            self._running = 0
            self._blocked.leave(self._coroutine)
            self._coroutine = None

    def _see_off(self, coroutine: Any) -> None:
        """Something beside a coroutine has stopped its loop: sys.exit in a task that it made, for example. It must not
        go on, unseen, when the loop runs for the next one."""
        while not coroutine.done() and not self._loop.is_closed():
            coroutine.cancel()
            try:
                self._loop.run_until_complete(coroutine)
            except BaseException:  # noqa: BLE001, S112 -- the first one is told
                continue

    def _look(self, _number: int, _frame: Any) -> None:
        seq, table = self._running, self._station.table
        if not seq:
            return
        if self._coroutine is not None:
            self._stop_coroutine(seq)
            return
        if self._told or not table.soft_expired(seq):
            return
        if self._station.link.critical:
            self._station.link.deferred = lambda: self._look(0, None)
            return
        self._told = True
        raise SoftTimeout

    def _stop_coroutine(self, seq: int) -> None:
        table = self._station.table
        if not self._told and (table.soft_expired(seq) or table.cancelled(seq)):
            self._told = True
            self._loop.call_soon_threadsafe(self._cancel, seq, self._coroutine)
        self._blocked.look()

    def _cancel(self, seq: int, coroutine: Any) -> None:
        if seq not in self._blocked.raised:
            coroutine.cancel()
