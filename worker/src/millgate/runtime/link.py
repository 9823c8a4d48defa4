"""The child's end of the link: jobs in, results out, questions and their answers; safe beside signals and threads.

Results of short tasks that follow each other are kept in the shared page for a moment and sent together: a task that
has ended has ended, whatever becomes of this process, and whoever waits for it waits half a millisecond.

Bytes are moved in *critical* sections, in which a signal must not raise: half a frame read or written would spoil
all that follow. Waiting is outside of them.

A process that a task has forked is *foreign*: of what came on the link it would take its child's part.
"""

from __future__ import annotations

import os
import select
from _thread import allocate_lock, get_ident
from _weakref import ref
from collections import deque
from collections.abc import Callable

from millgate import errors
from millgate.errors import BrokerError, BrokerUnavailable, InvalidInput
from millgate.hints import Any, Final
from millgate.runtime import wire
from millgate.runtime.bell import Bell
from millgate.runtime.table import Table

#: Seconds after the last frame was sent in which another one may wait for its followers.
_TOGETHER: Final = 0.0005


class Link:
    """Used by all threads of a child. Whoever waits for something reads for all, unless the link is `pumped`."""

    def __init__(self, descriptor: int, table: Table) -> None:
        self.descriptor = descriptor
        self.foreign = False  # whether this process is a fork of the one whose link it is
        mine = ref(self)
        os.register_at_fork(after_in_child=lambda: _disown(mine()))
        self._table = table
        self._sent_at = 0.0  # monotonic, the latest end of a task that was sent
        self._keeps = False  # something waits in the page
        self.critical = 0
        #: What a signal wanted to do in a critical section.
        self.deferred: Callable[[], None] | None = None
        self.pumped = False  # the main thread reads, by `pump`; others only wait
        self.arrived: Callable[[], object] = lambda: None  # something was read, not by `pump`
        self.closing = False  # no more jobs come
        self.ended = False  # nothing comes any more
        self._frames = wire.Reader(lambda view: os.readv(descriptor, [view]))
        self._jobs: deque[list[Any]] = deque()
        self._answers: dict[int, list[Any]] = {}
        self._asked: set[int] = set()
        self._requests = 0
        self._changed = Bell()
        self._reading = 0  # which thread does; one that was interrupted at the wrong moment may still stand here
        self._writing = allocate_lock()
        self._encoder = wire.Encoder()  # used by whoever writes
        self._main = get_ident()
        self._readable = select.poll()  # used by whoever reads
        self._readable.register(descriptor, select.POLLIN)

    # --- writing ---------------------------------------------------------------------------------

    def tell(self, value: Any) -> None:
        """As `send`, of something small; from a fork as well, where a thread that is not there may hold the lock."""
        if self.foreign:
            os.write(self.descriptor, wire.encode(value))
        else:
            self.send(value)

    def send(self, value: Any) -> None:
        """Send one frame; blocks while the supervisor is busy. Raises FrameTooLarge."""
        self._enter()
        try:
            with self._writing:
                self._write(self._encoder.encode(value))
        finally:
            self._leave()

    def send_soon(self, value: Any, now: float) -> None:
        """As `send`, of what has come about `now`; it may wait for the next such frames, until `flush` at the latest.

        Meanwhile it lies where the supervisor looks when this process dies, and now and then. For the main thread.
        """
        self.critical += 1
        try:
            with self._writing:
                data = self._encoder.encode(value)
                if now - self._sent_at < _TOGETHER and self._table.keep(data):
                    self._keeps = True
                else:
                    self._write(data)
                    self._sent_at = now
        finally:
            self._leave()

    def flush(self) -> None:
        """Send what waits for followers."""
        if self._keeps:
            self._enter()
            try:
                with self._writing:
                    self._write(b"")
            finally:
                self._leave()

    def _write(self, data: bytes | memoryview) -> None:
        kept = self._keeps
        if kept:
            data = bytes(self._table.kept()) + data
        sent = os.write(self.descriptor, data)
        if sent < len(data):
            rest = memoryview(data)  # a large frame is not copied for each part of it that goes
            while sent < len(rest):
                rest = rest[sent:]
                sent = os.write(self.descriptor, rest)
        if kept:
            self._table.clear()
            self._keeps = False

    # --- reading ---------------------------------------------------------------------------------

    def hello(self) -> dict[str, Any] | None:
        """The first frame: what this child is to be; None: the supervisor is gone."""
        while True:
            frames = self._frames.read()
            if frames is None:
                return None
            if frames:
                hello: dict[str, Any] = frames[0][1]
                for frame in frames[1:]:
                    self._sort(frame)
                return hello

    def next_jobs(self) -> list[Any] | None:
        """The jobs of the next frame; None: the supervisor wants no more from this child."""
        self.flush()
        while True:
            if self._jobs:
                return self._jobs.popleft()
            if self.closing or self.ended:
                return None
            self._advance(lambda: bool(self._jobs) or self.closing or self.ended)

    def take_jobs(self) -> list[list[Any]]:
        """What `pump` has read."""
        jobs = list(self._jobs)
        self._jobs.clear()
        return jobs

    def ask(self, run: int, verb: str, *arguments: Any) -> Any:
        """Ask the supervisor and wait for the answer. Raises the error that the broker raised there, and InvalidInput
        in a fork."""
        if self.foreign:
            raise InvalidInput(
                f"{verb}: ask in the task's own process, not in one that it has forked"
            )
        with self._changed.lock:
            self._requests += 1
            request = self._requests
            self._asked.add(request)
        try:
            self.send(["ask", request, run, verb, list(arguments)])
            while request not in self._answers:
                if self.ended:
                    raise BrokerUnavailable("the worker is stopping; it answers no more")
                self._advance(lambda: request in self._answers or self.ended)
            ok, value = self._answers.pop(request)
        finally:
            self._asked.discard(request)
            self._answers.pop(request, None)
        if not ok:
            raise _error(*value)
        return value

    def pump(self) -> None:
        """Read what is there, without waiting for more; for a main thread that has an event loop."""
        self._read()

    def _advance(self, enough: Callable[[], bool]) -> None:
        """Read once, or wait until another thread that reads has brought something."""
        with self._changed.lock:
            if enough():
                return
            me = get_ident()
            if self._reading not in {0, me} or (self.pumped and me != self._main):
                self._changed.wait(1.0)
                return
            self._reading = me
        try:
            # A signal may raise here: nothing is half done. And a read that waits would be woken for nothing
            # whenever the supervisor has taken something out of the other direction.
            self._readable.poll()
            self._read()
            self.arrived()
        finally:
            with self._changed.lock:
                self._reading = 0
                self._changed.ring()

    def _read(self) -> None:
        self._enter()
        try:
            frames = self._frames.read()
            with self._changed.lock:
                if frames is None:
                    self.ended = True
                for frame in frames or ():
                    self._sort(frame)
                self._changed.ring()
        finally:
            self._leave()

    def _sort(self, frame: list[Any]) -> None:
        if frame[0] == "run":
            self._jobs.append(frame[1])
        elif frame[0] == "end":
            self.closing = True
        elif frame[0] == "answer" and frame[1] in self._asked:
            self._answers[frame[1]] = frame[2:]

    # --- critical sections -----------------------------------------------------------------------

    def _enter(self) -> None:
        if get_ident() == self._main:
            self.critical += 1

    def _leave(self) -> None:
        if get_ident() == self._main:
            self.critical -= 1
            if not self.critical and self.deferred is not None:
                deferred, self.deferred = self.deferred, None
                deferred()


def _disown(link: Link | None) -> None:
    if link is not None:
        link.foreign = True


def _error(name: str, message: str) -> Exception:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.MillgateError):
        return kind(message)
    return BrokerError(message)
