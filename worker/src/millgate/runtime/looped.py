"""Several jobs at once in one event loop: coroutines as tasks of the loop, plain functions in threads beside it."""

from __future__ import annotations

import asyncio
import signal
import sys
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from millgate import execute
from millgate.errors import SoftTimeout
from millgate.execute import Job
from millgate.failure import describe
from millgate.outcome import Interrupted, Outcome, Raised, Reason
from millgate.runtime.blocked import Blocked
from millgate.runtime.station import Station
from millgate.runtime.table import LOOK
from millgate.runtime.threaded import Interrupts

#: Seconds after which a run for which there was no thread may begin again, somewhere.
_NO_THREAD: Final = 1.0


class Looped:
    """The next job is taken up when a slot is free; the loop reads the link."""

    def __init__(self, station: Station, slots: int) -> None:
        self._station = station
        self._slots = slots
        self._waiting: deque[list[Any]] = deque()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._threaded: set[int] = set()  # those of them that run in a thread, or will
        self._left: set[int] = set()  # those of them that were given back without a thread
        self._interrupts = Interrupts(station)
        self._executor = ThreadPoolExecutor(slots, "slot")
        self._loop = asyncio.new_event_loop()
        if sys.version_info >= (3, 12):  # a coroutine that does not wait costs no turn of the loop
            self._loop.set_task_factory(asyncio.eager_task_factory)
        self._blocked = Blocked(station, self._loop)
        self._over = asyncio.Event()

    def begin(self) -> None:
        """Run the app's on_start hooks. Raises what they raise."""
        asyncio.set_event_loop(self._loop)
        self._loop.add_signal_handler(LOOK, self._look)
        # the loop hears of the signal all the same; its own handler does nothing
        signal.signal(LOOK, lambda _number, _frame: self._blocked.look())
        signal.siginterrupt(LOOK, False)
        self._station.run_hooks(self._loop, execute.start_async(self._station.app))

    def work(self) -> None:
        """Until the supervisor wants no more, and what was begun has ended."""
        self._station.link.pumped = True
        # a coroutine that asks without awaiting reads what comes meanwhile
        self._station.link.arrived = lambda: self._loop.call_soon_threadsafe(self._take)
        self._loop.add_reader(self._station.link.descriptor, self._readable)
        while not self._over.is_set() or self._running or self._waiting:
            over = self._until_over()
            try:
                self._loop.run_until_complete(over)
            except BaseException:  # of what a run has left in the loop: the others go on
                if self._loop.is_closed():
                    raise
                traceback.print_exc()

    async def _until_over(self) -> None:
        await self._over.wait()
        while self._running or self._waiting:
            await asyncio.wait(list(self._running.values()))

    def end(self) -> None:
        """Run the app's on_stop hooks. Raises what they raise."""
        try:
            self._station.run_hooks(self._loop, execute.stop_async(self._station.app))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._executor.shutdown(wait=False)
            self._loop.close()

    def _readable(self) -> None:
        self._station.link.pump()
        self._take()

    def _take(self) -> None:
        link = self._station.link
        for jobs in link.take_jobs():
            self._waiting.extend(jobs)
        if link.ended:
            self._loop.remove_reader(link.descriptor)
        if link.ended or link.closing:
            self._over.set()
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._slots:
            taken = self._station.take(self._waiting.popleft(), self._station.clock.monotonic())
            if taken is not None:
                self._begin(*taken)

    def _begin(self, seq: int, job: Any) -> None:
        task = self._loop.create_task(self._one(seq, job), context=self._station.context.copy())
        if not task.done():
            self._running[seq] = task
            task.add_done_callback(lambda _task: self._done(seq))

    def _done(self, seq: int) -> None:
        del self._running[seq]
        self._fill()

    async def _one(self, seq: int, job: Any) -> None:
        station = self._station
        began = station.clock.monotonic()
        try:
            outcome = await self._outcome(seq, job) if isinstance(job, Job) else job
        except BaseException as error:  # noqa: BLE001 -- without an end it would have its slot until the hard timeout
            outcome = Raised(describe(error))
        station.report(seq, outcome, began)

    async def _outcome(self, seq: int, job: Job) -> Outcome:
        station = self._station
        if station.is_async(job):
            return await self._in_loop(seq, job)
        self._threaded.add(seq)
        try:
            made = self._executor.submit(self._in_thread, seq, job)
            return await asyncio.wrap_future(made)
        except RuntimeError:  # no thread is to be had; one that gets free finds the job
            self._left.add(seq)
            return Interrupted(_NO_THREAD)
        finally:
            self._threaded.discard(seq)

    async def _in_loop(self, seq: int, job: Job) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        self._blocked.enter(task, seq)
        try:
            station = self._station
            return await execute.run_async(station.app, job, station.around(seq))
        except SoftTimeout as error:  # it came when the user's code had just ended
            return Raised(describe(error), Reason.TIMED_OUT)
        finally:
            self._blocked.leave(task)

    def _in_thread(self, seq: int, job: Job) -> Outcome:
        if seq in self._left:
            self._left.discard(seq)
            return Interrupted()
        self._interrupts.enter(seq)
        try:
            return self._station.guarded(seq, self._station.run, job)
        finally:
            self._interrupts.leave(seq)

    def _look(self) -> None:
        table = self._station.table
        self._interrupts.look()
        for seq, task in list(self._running.items()):
            told = table.soft_expired(seq) or table.cancelled(seq)
            elsewhere = seq in self._threaded or seq in self._blocked.raised
            if told and not elsewhere and not task.cancelling():
                task.cancel()
