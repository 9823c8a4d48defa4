"""Answers what tasks ask of the broker: sending, looking up, locks, progress. Children hold no connection of their own.

One thread serves quick questions in order; a question that waits gets a thread of its own. Locks are renewed by a
third, since an answer may take longer than a lock lasts.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from millgate.clock import Clock
from millgate.errors import BrokerError, MillgateError
from millgate.message import ClaimRef, unpack
from millgate.runtime.connection import Connection
from millgate.runtime.logs import Journal
from millgate.runtime.states import dump_lock, dump_receipts, dump_state, load_group

_TURN: Final = 30.0
_LOCK_POLL: Final = 0.25  # seconds between two tries for a lock that is held
Answer = Callable[[bool, Any], None]
#: What children ask of the broker itself: from the wire's form into the verb's, and its answer back.
_VERBS: Final[Mapping[str, Callable[..., Any]]] = {
    "publish": lambda broker, messages, group: dump_receipts(
        broker.publish([unpack(data) for data in messages], load_group(group))
    ),
    "states": lambda broker, ids: [dump_state(state) for state in broker.states(ids)],
    "wait": lambda broker, ids, timeout: [dump_state(state) for state in broker.wait(ids, timeout)],
    "cancel": lambda broker, ids: [str(state) for state in broker.cancel(ids)],
    "acquire": lambda broker, *lock: dump_lock(broker.acquire(*lock)),
    "renew": lambda broker, *lock: broker.renew(*lock),
    "release": lambda broker, *lock: broker.release(*lock),
}


@dataclass(slots=True, eq=False)
class Held:
    """A lock that a run holds, or waits for."""

    run: int
    name: str
    holder: str
    ttl: float
    fence: int = 0  # 0: it is waited for
    due: float = float("inf")  # monotonic, when it is to be renewed
    lost: bool = False
    over: bool = False  # its run has ended


class Desk:
    """`ask` and `tell` are called by the io thread and return at once; answers come from other threads."""

    def __init__(self, worker: str, connection: Connection, journal: Journal, clock: Clock) -> None:
        self._worker = worker
        self._connection = connection
        self._journal = journal
        self._clock = clock
        self._calls: deque[Callable[[], None]] = deque()
        self._progress: dict[ClaimRef, bytes] = {}
        self._locks: dict[str, Held] = {}  # by holder
        self._granting = threading.Lock()  # between the grant of a lock and the end of its run
        self._holders = itertools.count(1)
        self._bell = threading.Event()
        self._lock_bell = threading.Event()
        self._stopping = False

    # --- the io thread ---------------------------------------------------------------------------

    def progress(self, claim: ClaimRef, value: bytes) -> None:
        """Pass on a run's progress; the newest wins."""
        self._progress[claim] = value
        self._bell.set()

    def ask(self, run: int, verb: str, arguments: list[Any], answer: Answer) -> None:
        """Carry out a verb for a run and call `answer(ok, value)`."""
        waits = verb == "wait" or (verb == "acquire_lock" and arguments[2] > 0)
        if verb == "acquire_lock":  # known from here on: its run may end before it is granted
            name, ttl, patience = arguments
            held = Held(run, name, f"{self._worker}/{next(self._holders)}", ttl)
            self._locks[held.holder] = held
            arguments = [held, patience]
        if waits:
            self._wait_aside(run, verb, arguments, answer)
            return
        self._calls.append(lambda: self._serve(run, verb, arguments, answer))
        self._bell.set()

    def _wait_aside(self, run: int, verb: str, arguments: list[Any], answer: Answer) -> None:
        call = (run, verb, arguments, answer)
        thread = threading.Thread(target=self._serve, args=call, name=f"desk-{verb}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is to be had: tasks make them too
            if isinstance(arguments[0], Held):
                self._locks.pop(arguments[0].holder, None)
            answer(False, ["BrokerUnavailable", f"the worker cannot wait for this: {error}"])

    @property
    def holds_locks(self) -> bool:
        """Whether any run holds a lock, or waits for one."""
        return bool(self._locks)

    def ended(self, run: int) -> None:
        """A run has ended: locks that it holds are given back, those that it waits for not granted any more."""
        with self._granting:
            its = [held for held in list(self._locks.values()) if held.run == run]
            for held in its:
                held.over = True
        if any(held.fence for held in its):
            self._calls.append(lambda: self._release_all(run))
            self._bell.set()

    def stop(self) -> None:
        """End the desk's threads."""
        self._stopping = True
        self._bell.set()
        self._lock_bell.set()

    # --- its own threads -------------------------------------------------------------------------

    def run(self) -> None:
        """Serve, tell, wait."""
        while not self._stopping:
            self._bell.wait(_TURN)
            self._bell.clear()
            self._send_progress()
            while self._calls:
                self._calls.popleft()()
                self._send_progress()  # there may always be another call

    def keep_locks(self) -> None:
        """Renew each lock in time, in a thread of its own."""
        while not self._stopping:
            self._lock_bell.wait(self._until_due())
            self._lock_bell.clear()
            self._renew_locks()

    def _until_due(self) -> float:
        now = self._clock.monotonic()
        dues = [held.due - now for held in list(self._locks.values())]
        return max(0.0, min([_TURN, *dues]))  # one that is lost, or only waited for, is never due

    def _serve(self, run: int, verb: str, arguments: list[Any], answer: Answer) -> None:
        try:
            if verb == "acquire_lock":
                value = self._acquire_lock(*arguments)
            elif verb == "release_lock":
                value = self._release_lock(run, *arguments)
            else:
                value = _VERBS[verb](self._connection.broker, *arguments)
        except MillgateError as error:
            answer(False, [type(error).__name__, str(error)])
        except Exception as error:  # noqa: BLE001 -- a task's odd question must not end the desk
            answer(False, ["BrokerError", f"{type(error).__name__}: {error}"])
        else:
            answer(True, value)

    def _send_progress(self) -> None:
        while self._progress:
            claim = next(iter(self._progress))
            value = self._progress.pop(claim)
            try:
                self._connection.broker.progress(claim, value)
            except BrokerError:
                continue  # the next one tells more

    def _renew_locks(self) -> None:
        now = self._clock.monotonic()
        for held in list(self._locks.values()):
            if held.due > now or held.lost:
                continue
            held.due = now + held.ttl / 3
            try:
                broker = self._connection.broker
                kept = broker.renew(held.name, held.holder, held.fence, held.ttl)
            except BrokerError as error:
                held.due = now + min(1.0, held.ttl / 10)
                self._journal.say("warning", "lock not renewed", lock=held.name, error=str(error))
                continue
            if not kept and held.holder in self._locks:  # else it was given back meanwhile
                held.lost, held.due = True, float("inf")
                self._journal.say("warning", "lock lost", lock=held.name)

    def _release_all(self, run: int) -> None:
        for held in list(self._locks.values()):
            if held.run == run and held.fence and self._locks.pop(held.holder, None) is not None:
                self._give_back(held, held.fence)

    def _give_back(self, held: Held, fence: int) -> None:
        try:
            self._connection.broker.release(held.name, held.holder, fence)
        except BrokerError:
            return  # it runs out by itself

    # --- locks of runs ---------------------------------------------------------------------------

    def _acquire_lock(self, held: Held, wait: float) -> int | None:
        end = self._clock.monotonic() + wait
        try:
            while not held.over:
                lock = self._connection.broker.acquire(held.name, held.holder, held.ttl)
                if lock is not None:
                    return self._granted(held, lock.fence)
                now = self._clock.monotonic()
                if now >= end or self._stopping:
                    break
                self._clock.sleep(min(_LOCK_POLL, max(0.0, end - now)))
        finally:
            if not held.fence:
                self._locks.pop(held.holder, None)
        return None

    def _granted(self, held: Held, fence: int) -> int | None:
        with self._granting:
            if not held.over:
                held.due = self._clock.monotonic() + held.ttl / 3
                held.fence = fence
        if not held.fence:  # nobody would give it back later, and it would be renewed for ever
            self._give_back(held, fence)
            return None
        self._lock_bell.set()
        return fence

    def _release_lock(self, run: int, name: str, fence: int) -> bool:
        for held in list(self._locks.values()):
            if (held.run, held.name, held.fence) == (run, name, fence):
                self._locks.pop(held.holder, None)
                return self._connection.broker.release(name, held.holder, fence) and not held.lost
        return False
