"""What a running task can ask and tell: the context of one run, and the protocol of whoever answers it."""

from __future__ import annotations

from contextvars import ContextVar

from millgate import codec
from millgate.aside import aside
from millgate.errors import InvalidInput, LockBusy, LockLost
from millgate.hints import TYPE_CHECKING, Any, Final, Protocol
from millgate.limits import parse_duration

if TYPE_CHECKING:
    import logging
    from types import TracebackType

    from millgate.message import Message

#: Bytes of an encoded progress value.
MAX_PROGRESS: Final = 16 * 1024
#: Seconds after which a run that met a held lock is tried again, unless it says otherwise.
BUSY_DELAY: Final = 2.0

_running: ContextVar[Context | None] = ContextVar("millgate_context", default=None)


class Surroundings(Protocol):
    """What the runtime answers to a running task. Safe to call from any thread of the run."""

    def progress(self, value: bytes) -> None:
        """Pass on an encoded progress value; the newest wins, and nothing waits for it."""

    def cancelled(self) -> bool:
        """Whether somebody cancelled this run."""

    def soft_expired(self) -> bool:
        """Whether the run is past its soft timeout, or its worker wants to stop."""

    def acquire(self, name: str, ttl: float, wait: float) -> int | None:
        """Take a lock within `wait` seconds and have it renewed until it is released: its fencing number, or None."""

    def release(self, name: str, fence: int) -> bool:
        """Give a lock back; False: it was lost before."""


class Context:
    """One run of one task."""

    __slots__ = (
        "_surroundings",
        "attempt",
        "failures",
        "headers",
        "id",
        "key",
        "over",
        "task",
        "topic",
    )

    def __init__(
        self, surroundings: Surroundings, message: Message, attempt: int = 1, failures: int = 0
    ) -> None:
        self._surroundings = surroundings
        self.id = message.id
        self.task = message.task
        self.topic = message.topic
        self.attempt = attempt  # from 1; starts that were given back uncharged are not counted
        self.failures = failures  # earlier starts that the task itself ended badly
        self.key = message.key
        self.headers = message.headers
        self.over = (
            False  # what a run has left behind, a thread for example, finds its context still
        )

    def progress(self, value: Any) -> None:
        """Show `value` (anything that travels, small) as this task's progress. Raises NotEncodable, InvalidInput."""
        data = codec.encode(value, "progress")
        if len(data) > MAX_PROGRESS:
            raise InvalidInput(f"progress has {len(data)} bytes; at most {MAX_PROGRESS} are kept")
        self._surroundings.progress(data)

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled this task: end soon, its result is not wanted."""
        return self._surroundings.cancelled()

    @property
    def soft_expired(self) -> bool:
        """Whether it is time to stop: the soft timeout has passed, or the worker shuts down."""
        return self._surroundings.soft_expired()

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry task, id, topic and attempt. From INFO on they are in the worker's log, or
        wherever the app's own handlers bring them."""
        import logging

        # here, since few tasks need it: the memory of a child is the user's
        from millgate import tasklog

        extra = {"task": self.task, "id": self.id, "topic": self.topic, "attempt": self.attempt}
        return logging.LoggerAdapter(tasklog.logger(self.task), extra)

    def lock(
        self,
        name: str,
        *,
        ttl: float | str = 30.0,
        wait: float | str = 0.0,
        retry: float | str = BUSY_DELAY,
    ) -> HeldLock:
        """A lock for the whole fleet: `with ctx.lock("name") as lock`, in a coroutine `async with`.

        `wait` is how long to try; then LockBusy is raised, and if the task lets it pass, it runs again after
        `retry`, uncharged. Catch it and raise Reject to give up instead. The lock is renewed while it is held;
        `ttl` is how long it outlives a worker that dies. `lock.fence` grows with each grant: hand it to the
        resource, which can refuse an older holder.
        """
        times = parse_duration(ttl), parse_duration(wait), parse_duration(retry)
        return HeldLock(self._surroundings, name, times)


class HeldLock:
    """A lock as a context manager; the asynchronous one leaves the event loop free."""

    __slots__ = ("_surroundings", "_times", "fence", "name")

    def __init__(
        self, surroundings: Surroundings, name: str, times: tuple[float, float, float]
    ) -> None:
        self._surroundings = surroundings
        self._times = times
        self.name = name
        self.fence = 0  # 0: not held

    def __enter__(self) -> HeldLock:
        ttl, wait, retry = self._times
        fence = self._surroundings.acquire(self.name, ttl, wait)
        if fence is None:
            raise LockBusy(f"lock {self.name!r} is held by another run", after=retry, charge=False)
        self.fence = fence
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        fence, self.fence = self.fence, 0
        kept = self._surroundings.release(self.name, fence)
        if not kept and error is None:
            raise LockLost(f"lock {self.name!r} ran out while it was held; check what it guarded")

    async def __aenter__(self) -> HeldLock:
        return await aside(lambda _gone: self.__enter__())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await aside(lambda _gone: self.__exit__(kind, error, traceback))


def current() -> Context:
    """The context of the run that this code is part of. Raises InvalidInput outside of one."""
    context = _running.get()
    if context is None:
        raise InvalidInput("no task runs here; current() answers only inside a task")
    return context


def running() -> Context | None:
    """As `current`, but None outside of a run."""
    return _running.get()


def number_of(context: Context) -> int:
    """The number that a worker gave a run; 0: nobody counts."""
    return getattr(context._surroundings, "seq", 0)  # noqa: SLF001 -- of this module


def enter(context: Context) -> Any:
    """Make `context` the current one; the answer goes to `leave`."""
    return _running.set(context)


def leave(token: Any) -> None:
    """The run is over: restore what was current before `enter`."""
    context = _running.get()
    if context is not None:
        context.over = True
    _running.reset(token)
