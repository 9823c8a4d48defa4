"""For users' tests: tasks that run at once, or when the test says so, in this process, with a time that can be turned.

Outcomes are settled exactly as a worker settles them (retries, bounds, dead letters, chains, chords), but nobody
waits: the time jumps to whatever is due next. Timeouts are not enforced, and there is one worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Any, Final, TypeVar

from millgate.brokers.base import Ask, TaskState
from millgate.brokers.memory import MemoryBroker
from millgate.clock import Clock
from millgate.errors import MillgateError, NotDecodable, ResultTimeout, UnknownTask
from millgate.execute import Job, run
from millgate.failure import describe
from millgate.fleet import Beat, WorkerInfo, WorkerRef
from millgate.frozen import dataclass
from millgate.ids import new_incarnation
from millgate.inject import Scope
from millgate.limits import parse_duration
from millgate.message import Claim, ClaimRef, Group, Message, Receipt
from millgate.outcome import Outcome, Reason, Rejected
from millgate.settlement import Bury, Settlement, settle

if TYPE_CHECKING:
    from millgate.app import App
    from millgate.brokers.base import Broker

T = TypeVar("T")
#: Runs after which a drain gives up: a task that sends itself would never end.
MAX_RUNS: Final = 10_000
_RENEWAL: Final = 15.0  # seconds; below a third of any usual lease
#: Seconds for which a test may wait for a result that nothing brings: another thread may be about to.
PATIENCE: Final = 10.0
_DRAW: Final = 0.5  # the middle of the jitter, so that tests repeat


class FakeTime:
    """A clock that stands still until it is turned."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """The same: it is never set back."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let time pass, without waiting."""
        self.advance(seconds)

    def advance(self, by: float | str) -> None:
        """Let `by` (seconds, or "1h30m") pass."""
        self._now += parse_duration(by)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the message, its attempt, how it ended, and what the broker was told."""

    message: Message | None  # None: it could not be decoded
    attempt: int
    outcome: Outcome
    settlement: Settlement


class Bench:
    """An app on a memory broker of its own, with its time in the test's hands."""

    def __init__(self, app: App, broker: Broker, time: FakeTime) -> None:
        self.app = app
        self.broker = broker
        self.time = time

    def drain(self) -> list[Run]:
        """Run everything that waits, and what follows from it, delays and retries included; the runs in order."""
        return drain(self.app, time=self.time)

    def run_due(self) -> list[Run]:
        """Run what is due now, and what follows from it at once."""
        return drain(self.app)

    def advance(self, by: float | str) -> list[Run]:
        """Let time pass, then run what has become due."""
        self.time.advance(by)
        return self.run_due()


@contextmanager
def memory(app: App, *, now: float = 1_700_000_000.0) -> Iterator[Bench]:
    """Within the block, `app` sends to a memory broker of its own; nothing runs until the test says so."""
    time = FakeTime(now)
    broker = _ImpatientBroker(clock=time)
    restore = app.use(broker)
    try:
        with _a_life(app):
            yield Bench(app, broker, time)
    finally:
        restore()


@contextmanager
def eager(app: App, *, raising: bool = False) -> Iterator[Bench]:
    """Within the block, what is sent has run when `send` answers: delays and retries included, without waiting.

    With `raising`, the exception that ends a task for good is raised by `send`, as if the function had been called.
    """
    time = FakeTime()
    watch = _Watch()

    def run_all() -> None:
        runs = drain(app, time=time)
        if raising and any(isinstance(run.settlement, Bury) for run in runs):
            watch.raise_last()

    broker = _EagerBroker(run_all, time)
    restore = app.use(broker)
    app.middlewares.append(watch)
    try:
        with _a_life(app):
            yield Bench(app, broker, time)
    finally:
        app.middlewares.remove(watch)
        restore()


@contextmanager
def _a_life(app: App) -> Iterator[None]:
    """The block as the life of a child: dependencies of that scope are made in it and end with it."""
    life = _Life(app.overrides)
    former, app.scope = app.scope, life
    try:
        yield
    finally:
        app.scope = former
        life.end()


class _Life(Scope):
    """The scope of a child, and the loop that its async tasks share; in a thread, since the test may have one, too."""

    __slots__ = ("_loop", "_stop", "_thread")

    def __init__(self, overrides: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__(overrides)
        self._thread: Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What it answers. Raises what it raises."""
        with self._lock:
            if self._thread is None:
                self._begin_loop()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _begin_loop(self) -> None:
        begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def live() -> None:
            stop = asyncio.Event()
            begun.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

        self._thread = Thread(target=lambda: asyncio.run(live()), daemon=True)
        self._thread.start()
        self._loop, self._stop = begun.result()

    @property
    def is_here(self) -> bool:
        """Whether a task in the loop is asking: it would wait for itself."""
        return self._thread is not None and self._thread.ident == get_ident()

    def end(self) -> None:
        """End what was begun in this scope, then the loop and what is left in it."""
        try:
            if self.is_async:
                self.run(self.close_async())
            else:
                self.close()
        finally:
            if self._thread is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
                self._thread.join()


def drain(app: App, *, time: FakeTime | None = None, limit: int = MAX_RUNS) -> list[Run]:
    """Run everything that waits in the app's broker (memory, or any other) in this thread; the runs in order.

    With `time`, the clock of that broker, it is turned to whatever is due next until nothing is left. Raises
    UnknownTask for a message whose task the app does not have, MillgateError after `limit` runs.
    """
    return _Drain(app, time).all(limit)


class _Drain:
    """A worker without processes."""

    def __init__(self, app: App, time: FakeTime | None) -> None:
        self._app = app
        self._broker = app.broker
        self._time = time
        incarnation = new_incarnation()
        self._worker = WorkerRef(f"testing-{incarnation}", incarnation)

    def all(self, limit: int) -> list[Run]:
        runs: list[Run] = []
        try:
            while len(runs) < limit:
                self._broker.register(self._worker, WorkerInfo())
                claimed = self._broker.claim(self._worker, Ask())
                if claimed.claims:
                    runs.append(self._run(claimed.claims[0]))
                elif self._time is None or claimed.next_due is None or self._only_leases():
                    return runs
                else:
                    _pass(self._broker, self._time, max(claimed.next_due, 0.001))
        finally:
            self._broker.unregister(self._worker)
        raise MillgateError(f"there is still work after {limit} runs; does a task send itself?")

    def _only_leases(self) -> bool:
        """Whether time brings nothing but the end of the leases of tasks that are running around this drain."""
        around = any(held is self._broker for held, _, _ in _open)
        return around and not any(t.delayed for t in self._broker.stats().topics.values())

    def _run(self, claim: Claim) -> Run:
        policy = self._broker.configuration().policy(claim.topic)
        try:
            message = claim.message()
        except NotDecodable as error:
            outcome: Outcome = Rejected(describe(error), Reason.UNDECODABLE)
            return self._settle(claim, None, outcome, settle(claim, outcome, policy.retry, _DRAW))
        spec = self._app.spec(message.task)
        if spec is None:
            known = ", ".join(self._app.tasks) or "none"
            raise UnknownTask(f"the app has no task {message.task!r}; it has {known}")
        job = Job(
            message,
            claim.attempt,
            claim.failures,
            claim.losses,
            claim.interruptions,
            tuple(self._broker.states(message.gather)) if message.gather else None,
            payload_max=policy.payload_max,
        )
        with _held(self._broker, self._worker, claim.ref):
            outcome = _run_here(self._app, job, _Surroundings(self._broker, self._worker, claim))
        retry = spec.retry_policy(message.options, policy)
        settlement = settle(claim, outcome, retry, _DRAW, policy.result_ttl)
        return self._settle(claim, message, outcome, settlement)

    def _settle(
        self, claim: Claim, message: Message | None, outcome: Outcome, settlement: Settlement
    ) -> Run:
        self._broker.settle([settlement])
        return Run(message, claim.attempt, outcome, settlement)


#: Claims whose tasks are running now: one may send another eagerly, and time passes meanwhile.
_open: list[tuple[Broker, WorkerRef, ClaimRef]] = []


@contextmanager
def _held(broker: Broker, worker: WorkerRef, claim: ClaimRef) -> Iterator[None]:
    _open.append((broker, worker, claim))
    try:
        yield
    finally:
        _open.pop()


def _pass(broker: Broker, time: FakeTime, seconds: float) -> None:
    """Let time pass; what runs keeps its lease."""
    mine = [(worker, claim) for held, worker, claim in _open if held is broker]
    while mine and seconds > _RENEWAL:
        time.advance(_RENEWAL)
        seconds -= _RENEWAL
        for worker, claim in mine:
            broker.extend(worker, [claim], Beat(busy=1))
    time.advance(seconds)


def _run_here(app: App, job: Job, surroundings: _Surroundings) -> Outcome:
    """Run the job; an async one in the loop of the block, or in one of its own if a task in that loop waits for it."""
    spec = app.spec(job.message.task)
    if spec is None or not spec.is_async:
        return run(app, job, surroundings)
    if isinstance(app.scope, _Life) and not app.scope.is_here:
        return run(app, job, surroundings, app.scope.run)
    if not _in_a_loop():
        return run(app, job, surroundings)
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(run, app, job, surroundings).result()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Surroundings:
    """What a running task asks, answered by the broker at once."""

    def __init__(self, broker: Broker, worker: WorkerRef, claim: Claim) -> None:
        self._broker = broker
        self._worker = worker
        self._claim = claim

    def progress(self, value: bytes) -> None:
        self._broker.progress(self._claim.ref, value)

    def cancelled(self) -> bool:
        extended = self._broker.extend(self._worker, [self._claim.ref], Beat(busy=1))
        return self._claim.id in extended.cancelled

    def soft_expired(self) -> bool:
        return False

    def acquire(self, name: str, ttl: float, wait: float) -> int | None:  # noqa: ARG002 -- nobody else could let go
        lock = self._broker.acquire(name, self._claim.token, ttl)
        return None if lock is None else lock.fence

    def release(self, name: str, fence: int) -> bool:
        return self._broker.release(name, self._claim.token, fence)


class _ImpatientBroker(MemoryBroker):
    """A memory broker that does not let a test hang on what nobody runs."""

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        states = super().wait(ids, min(timeout, PATIENCE))
        if timeout > PATIENCE and not any(known.state.final for known in states):
            raise ResultTimeout(
                f"{ids[-1]}: nothing has run it for {PATIENCE:g}s, and in a test nothing does by itself:"
                " call run_due(), drain() or advance() first"
            )
        return states


class _EagerBroker(_ImpatientBroker):
    """A memory broker that has run what was published when it answers."""

    def __init__(self, then: Callable[[], None], clock: Clock) -> None:
        super().__init__(clock=clock)
        self._then = then

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        receipts = super().publish(messages, group)
        self._then()
        return receipts


class _Watch:
    """A middleware that remembers the last exception."""

    def __init__(self) -> None:
        self._last: BaseException | None = None

    def __call__(self, _: Any) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._last = error
            raise

    def raise_last(self) -> None:
        """Raise it, once."""
        last, self._last = self._last, None
        if last is not None:
            raise last
