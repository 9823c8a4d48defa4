"""Where a child runs its jobs: what every way of running has in common, from a job's fields to the result's frame."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace

from millgate import execute
from millgate.app import App
from millgate.clock import Clock
from millgate.errors import NotDecodable
from millgate.execute import Job
from millgate.hints import TYPE_CHECKING, Any, Final
from millgate.outcome import Failure, Outcome, Raised, Reason, Rejected, Returned
from millgate.runtime import printed, wire
from millgate.runtime.link import Link
from millgate.runtime.table import Table
from millgate.runtime.trim import LONG, Trimmer

if TYPE_CHECKING:
    from millgate.brokers.base import TaskState

#: Bytes by which a child that ran into its data limit raises it, to be able to report that.
_REPORT_ROOM: Final = 32 * 2**20
_CLOSE: Final = 8 * 2**20
_NO_MEMORY: Final = Raised(
    Failure("builtins.MemoryError", "out of memory, even to say where"), Reason.MEMORY_EXCEEDED
)


class Around:
    """What a running task asks and tells, answered by page and link."""

    __slots__ = ("_link", "_table", "seq")

    def __init__(self, seq: int, link: Link, table: Table) -> None:
        self.seq = seq
        self._link = link
        self._table = table

    def progress(self, value: bytes) -> None:
        self._link.tell(["tell", self.seq, value])

    def cancelled(self) -> bool:
        return self._table.cancelled(self.seq)

    def soft_expired(self) -> bool:
        return self._table.soft_expired(self.seq)

    def acquire(self, name: str, ttl: float, wait: float) -> int | None:
        fence: int | None = self._link.ask(self.seq, "acquire_lock", name, ttl, wait)
        return fence

    def release(self, name: str, fence: int) -> bool:
        return self._link.foreign or bool(self._link.ask(self.seq, "release_lock", name, fence))


class Station:
    """Shared by the runs of one child."""

    def __init__(self, app: App, link: Link, table: Table, clock: Clock) -> None:
        self.app = app
        self.link = link
        self.table = table
        self.clock = clock
        #: What the import and the on_start hooks have set in context variables. Each run has a copy of its own.
        self.context = copy_context()
        self._trimmer = Trimmer()
        self._trimmer.look(clock.monotonic())  # this is small

    def take(self, fields: list[Any], now: float) -> tuple[int, Job | Outcome] | None:
        """Take up one job: its number, and the job or what makes it impossible; None: it was taken back."""
        seq: int = fields[0]
        if not self.table.take(seq, now):
            self.link.send(["left", seq])
            return None
        try:
            _, message, counts, gathered, payload_max = wire.load_job(fields)
            states = None if gathered is None else _states(gathered)
        except NotDecodable as error:
            failure = Failure("millgate.errors.NotDecodable", str(error))
            return seq, Rejected(failure, Reason.UNDECODABLE)
        except MemoryError:
            raise_limit()
            return seq, _NO_MEMORY
        _, failures, losses, interruptions = counts
        # what was given back uncharged is not an attempt to the task
        attempt = failures + losses + 1
        return seq, Job(
            message,
            attempt,
            failures,
            losses,
            interruptions,
            states,
            execute.MAX_RESULT,
            payload_max,
        )

    def is_async(self, job: Job) -> bool:
        """Whether the job's task is a coroutine function."""
        spec = self.app.spec(job.message.task)
        return spec is not None and spec.is_async

    def around(self, seq: int) -> Around:
        """The surroundings of one run."""
        return Around(seq, self.link, self.table)

    def run_hooks(self, loop: Any, made: Any) -> None:
        """Run a coroutine of hooks in an event loop, where what it sets is kept for all runs. Raises what it raises."""
        loop.run_until_complete(loop.create_task(made, context=self.context))

    def run(self, seq: int, job: Job) -> Outcome:
        """Run a plain task in this thread."""
        return self.context.copy().run(execute.run, self.app, job, self.around(seq))

    def report(self, seq: int, outcome: Outcome, began: float, *, more: bool = False) -> None:
        """Send the result, everything printed before it. `more`: another job begins at once, or `flush` is called;
        then a plain success may wait for others. Whatever else it is, the supervisor may want to act upon it.

        When nothing can be sent, as after a task that has closed whatever was open, this process ends: so it is known
        at least that the run has ended."""
        if self.link.foreign:
            end_fork(outcome)
        try:
            now = self.clock.monotonic()
            self._tell(seq, outcome, began, now, more=more)
            if now - began > LONG or now > self._trimmer.due:
                self._trimmer.look(now)
        except Exception:  # noqa: BLE001 -- one of several threads that ended alone would be missed by nobody
            give_up()

    def _tell(self, seq: int, outcome: Outcome, began: float, now: float, *, more: bool) -> None:
        seconds = now - began
        if isinstance(outcome, Raised):
            outcome = _named(outcome)
        said = printed.take(seq)
        kind = wire.SAID if said else wire.DONE
        try:
            frame = [kind, seq, seconds, wire.dump_outcome(outcome)]
            if said or not more or type(outcome) is not Returned:
                self.link.send(frame)
            else:
                self.link.send_soon(frame, now)
        except wire.FrameTooLarge as error:
            failure = Failure("millgate.errors.PayloadTooLarge", f"the result: {error}")
            refused = Rejected(failure, Reason.RESULT_REFUSED)
            self.link.send([kind, seq, seconds, wire.dump_outcome(refused)])
        except MemoryError:
            raise_limit()
            self.link.send([kind, seq, seconds, wire.dump_outcome(_NO_MEMORY)])

    def guarded(self, seq: int, call: Callable[[int, Job], Outcome], job: Job) -> Outcome:
        """The call's outcome, or what it means that it raised all the same: memory gone while it was reported."""
        try:
            outcome = call(seq, job)
        except MemoryError:
            raise_limit()
            return _NO_MEMORY
        except BaseException as error:  # noqa: BLE001 -- a signal between the task's end and here
            failure = Failure(f"{type(error).__module__}.{type(error).__qualname__}", str(error))
            timed_out = self.table.soft_expired(seq)
            return Raised(failure, Reason.TIMED_OUT if timed_out else Reason.FAILED)
        if self.link.foreign:
            end_fork(outcome)
        return outcome


def give_up() -> None:
    """End this process, which cannot speak with its supervisor any more, and say why."""
    try:
        import traceback

        traceback.print_exc()
        printed.take()
    finally:
        os._exit(1)


def end_fork(outcome: Outcome) -> None:
    """End a process that a task has forked and that has come out of the task: the run is the child's, not its."""
    failure = getattr(outcome, "failure", None)
    code = 0 if failure is None else 1
    if failure is not None and failure.error == "SystemExit":
        text = failure.message
        code = int(text) & 0xFF if text.isdigit() else int(text not in {"", "None"})
    elif failure is not None:
        sys.stderr.write(f"{failure.traceback}\n")
    printed.take()
    os._exit(code)


def _states(gathered: list[Any]) -> tuple[TaskState, ...]:
    from millgate.runtime.states import load_state  # what it imports is only needed here

    return tuple(load_state(state) for state in gathered)


def _named(outcome: Raised) -> Raised:
    """Errors that come of the data limit are called what they are."""
    if outcome.reason is Reason.MEMORY_EXCEEDED:
        raise_limit()
    elif outcome.failure.message.startswith("can't start new thread") and _near_limit():
        raise_limit()
        return replace(outcome, reason=Reason.MEMORY_EXCEEDED)
    return outcome


def raise_limit() -> None:
    """Make room to report; the supervisor replaces this child."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (soft + _REPORT_ROOM, hard))


def _near_limit() -> bool:
    from millgate.runtime.rss import data_of

    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    measured = data_of("self")
    return soft != resource.RLIM_INFINITY and measured is not None and measured[0] + _CLOSE >= soft
