"""Several plain jobs at once, in threads; the main thread reads. Soft timeouts are best effort; a kill hits all."""

from __future__ import annotations

import ctypes
import queue
import signal
import threading
from typing import Any

from millgate import execute
from millgate.errors import SoftTimeout
from millgate.execute import Job
from millgate.runtime.station import Station
from millgate.runtime.table import LOOK


class Interrupts:
    """Raises SoftTimeout in the thread that runs a number, and in no other. Signal handlers may call `look`."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._threads: dict[int, int] = {}
        self._told: set[int] = set()
        self._lock = threading.RLock()  # a handler may interrupt its own thread

    def enter(self, seq: int) -> None:
        """This thread runs `seq` from now on."""
        with self._lock:
            self._threads[seq] = threading.get_ident()

    def leave(self, seq: int) -> None:
        """It does no more; an exception that was asked for and has not been raised yet is taken back."""
        with self._lock:
            thread = self._threads.pop(seq)
            if seq in self._told:
                self._told.discard(seq)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)

    def look(self) -> None:
        """Interrupt what the page says is over."""
        with self._lock:
            for seq, thread in self._threads.items():
                if seq not in self._told and self._station.table.soft_expired(seq):
                    self._told.add(seq)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread), ctypes.py_object(SoftTimeout)
                    )


class Threaded:
    """As many threads as slots; the next job is taken up when one is free."""

    def __init__(self, station: Station, slots: int) -> None:
        self._station = station
        self._slots = slots
        self._free = threading.Semaphore(slots)
        self._jobs: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self._interrupts = Interrupts(station)
        self._threads = [
            threading.Thread(target=self._run, name=f"slot-{number}", daemon=True)
            for number in range(slots)
        ]

    def begin(self) -> None:
        """Run the app's on_start hooks. Raises what they raise."""
        signal.signal(LOOK, lambda _number, _frame: self._interrupts.look())
        self._station.context.run(execute.start, self._station.app)
        for thread in self._threads:
            thread.start()

    def work(self) -> None:
        """Until the supervisor wants no more."""
        while True:
            jobs = self._station.link.next_jobs()
            if jobs is None:
                break
            for fields in jobs:
                self._free.acquire()
                taken = self._station.take(fields, self._station.clock.monotonic())
                if taken is None:
                    self._free.release()
                    continue
                self._jobs.put(taken)
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """Run the app's on_stop hooks. Raises what they raise."""
        self._station.context.run(execute.stop, self._station.app)

    def _run(self) -> None:
        while True:
            taken = self._jobs.get()
            if taken is None:
                return
            seq, job = taken
            station = self._station
            began = station.clock.monotonic()
            outcome = station.guarded(seq, self._one, job)
            station.report(seq, outcome, began)
            self._free.release()

    def _one(self, seq: int, job: Any) -> Any:
        if not isinstance(job, Job):
            return job
        self._interrupts.enter(seq)
        try:
            return self._station.run(seq, job)
        finally:
            self._interrupts.leave(seq)
