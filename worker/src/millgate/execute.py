"""One run as a pipeline: decode, surround, call, encode; whatever user code does, the answer is an Outcome."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType

from millgate import codec, context, tracing, workflow
from millgate.context import Context, Surroundings
from millgate.errors import InvalidInput, NotDecodable, NotEncodable, Reject, Retry, SoftTimeout
from millgate.failure import describe
from millgate.frozen import dataclass, quick
from millgate.hints import TYPE_CHECKING, Any, Final
from millgate.inject import Scope, is_async
from millgate.limits import parse_duration
from millgate.message import LONGEST, Message
from millgate.middleware import Onion
from millgate.outcome import (
    Cancelled,
    Failure,
    Interrupted,
    Outcome,
    Raised,
    Reason,
    Rejected,
    RetryRequested,
    Returned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from millgate.app import App
    from millgate.brokers.base import TaskState
    from millgate.spec import TaskSpec

__all__ = ["Job", "Surroundings", "run", "run_async", "start", "start_async", "stop", "stop_async"]

#: Bytes of an encoded result, unless the job says otherwise.
MAX_RESULT: Final = 16 * 2**20
#: Seconds after which a message of a task that this app does not have is tried elsewhere.
_UNKNOWN_DELAY: Final = 30.0
_NOTHING: Final = Returned(None)
#: What a function answers that has not done anything yet: nobody will run it.
_UNRUN: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)


@quick
@dataclass(frozen=True, slots=True)
class Job:
    """What a child is given to run. `gathered` are the states of `message.gather`, in order.

    `result_max` bounds the encoded result, `payload_max` the record of a next step, in bytes; None: unbounded.
    """

    message: Message
    attempt: int = 1
    failures: int = 0
    losses: int = 0
    interruptions: int = 0
    gathered: tuple[TaskState, ...] | None = None
    result_max: int = MAX_RESULT
    payload_max: int | None = None


def run(
    app: App,
    job: Job,
    surroundings: Surroundings,
    in_loop: Callable[[Coroutine[Any, Any, Outcome]], Outcome] | None = None,
) -> Outcome:
    """Run a job in this thread. An async task is given a loop of its own, or to `in_loop`, which waits for it.
    Never raises for what user code does."""
    try:
        spec = app.spec(job.message.task)
        if spec is None:
            return Interrupted(_UNKNOWN_DELAY)
        if spec.is_async:
            import asyncio

            return (in_loop or asyncio.run)(run_async(app, job, surroundings))
        return _run(app, spec, job, surroundings)
    except BaseException as error:  # noqa: BLE001 -- user code may raise anything, also while it is being reported
        return _outcome_of(error, surroundings)


async def run_async(app: App, job: Job, surroundings: Surroundings) -> Outcome:
    """Run a job in the running loop. A plain task blocks the loop. Never raises for what user code does."""
    try:
        spec = app.spec(job.message.task)
        if spec is None:
            return Interrupted(_UNKNOWN_DELAY)
        if not spec.is_async:
            return _run(app, spec, job, surroundings)
        return await _run_async(app, spec, job, surroundings)
    except BaseException as error:  # noqa: BLE001 -- as above; a cancellation is the runtime's word, answered in kind
        return _outcome_of_async(error, surroundings)


def start(app: App) -> None:
    """Begin the life of a child: its on_start hooks. Raises what they raise."""
    for hook in app.starting:
        if is_async(hook):
            raise InvalidInput(f"{hook.__qualname__} is async: this child has no event loop")
        hook()


async def start_async(app: App) -> None:
    """As `start`, in a loop; hooks may be async."""
    for hook in app.starting:
        made = hook()
        if is_async(hook):
            await made


def stop(app: App) -> None:
    """End the life of a child: on_stop hooks, then what has the scope of the child; all of them, whatever they raise.
    The first error is raised at the end."""
    problems: list[BaseException] = []
    for end in (*app.stopping, app.scope.close):
        try:
            end()
        except BaseException as error:  # noqa: BLE001 -- the others must run too
            problems.append(error)
    if problems:
        raise problems[0]


async def stop_async(app: App) -> None:
    """As `stop`, in a loop; hooks may be async."""
    problems: list[BaseException] = []
    for end in (*app.stopping, app.scope.close_async):
        try:
            made = end()
            if is_async(end):
                await made
        except BaseException as error:  # noqa: BLE001 -- the others must run too
            problems.append(error)
    if problems:
        raise problems[0]


# --- the pipeline --------------------------------------------------------------------------------


def _run(app: App, spec: TaskSpec, job: Job, surroundings: Surroundings) -> Outcome:
    call = _arguments(spec, job)
    if not isinstance(call, tuple):
        return call
    here = Context(surroundings, job.message, job.attempt, job.failures)
    value: Any = None
    error: BaseException | None = None
    token = context.enter(here)
    try:
        layers = tracing.around(app.middlewares, here.headers)
        if not layers:
            return _returned(job, _call(app, spec, *call))
        onion = Onion(layers, here)
        try:
            value = _call(app, spec, *call) if onion.enter() else onion.value
        except BaseException as raised:  # noqa: BLE001 -- shown to the middleware, then mapped
            error = raised
        return _returned(job, onion.leave(value, error))
    finally:
        error = None  # its traceback leads here: what the task held would outlive it
        context.leave(token)


async def _run_async(app: App, spec: TaskSpec, job: Job, surroundings: Surroundings) -> Outcome:
    call = _arguments(spec, job)
    if not isinstance(call, tuple):
        return call
    here = Context(surroundings, job.message, job.attempt, job.failures)
    value: Any = None
    error: BaseException | None = None
    token = context.enter(here)
    try:
        layers = tracing.around(app.middlewares, here.headers)
        if not layers:
            return _returned(job, await _call_async(app, spec, *call))
        onion = Onion(layers, here)
        try:
            value = await _call_async(app, spec, *call) if onion.enter() else onion.value
        except BaseException as raised:  # noqa: BLE001 -- shown to the middleware, then mapped
            error = raised
        return _returned(job, onion.leave(value, error))
    finally:
        error = None  # its traceback leads here: what the task held would outlive it
        context.leave(token)


def _arguments(spec: TaskSpec, job: Job) -> tuple[list[Any], dict[str, Any]] | Outcome:
    """The decoded arguments, or why there are none."""
    body = job.message.body
    if job.message.gather:
        first = _gathered(job)
        if not isinstance(first, bytes):
            return first
        body = codec.splice(body, first)
    try:
        args, kwargs = codec.decode_call(body)
    except NotDecodable as error:
        return Rejected(describe(error), Reason.UNDECODABLE)
    filled = spec.depends.keys() & kwargs.keys() if spec.depends else None
    if filled:  # whoever sends must not choose what the worker is to provide
        names = ", ".join(sorted(filled))
        text = f"{spec.name} is given {names} by its worker, not by the sender"
        return Rejected(Failure("millgate.errors.BadArguments", text), Reason.BAD_ARGUMENTS)
    return args, kwargs


def _gathered(job: Job) -> bytes | Outcome:
    if job.gathered is None:
        text = "the worker handed over no results of the members"
        return Raised(Failure("millgate.errors.ResultMissing", text))
    first = workflow.gathered(job.message, job.gathered)
    if isinstance(first, bytes):
        return first
    text = f"member {first.id} is {first.state}, or its result is not kept any more"
    return Rejected(Failure("millgate.errors.ResultMissing", text), Reason.MEMBER_FAILED)


def _call(app: App, spec: TaskSpec, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        if not spec.depends:
            return spec.function(*args, **kwargs)
        scope = Scope(app.overrides, app.scope)
        return scope.call(spec.function, spec.depends, args, kwargs)
    except TypeError:
        _check_arguments(spec, args, kwargs)
        raise


async def _call_async(app: App, spec: TaskSpec, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        if not spec.depends:
            return await spec.function(*args, **kwargs)
        scope = Scope(app.overrides, app.scope)
        return await scope.call_async(spec.function, spec.depends, args, kwargs)
    except TypeError:
        _check_arguments(spec, args, kwargs)
        raise


class _WrongArguments(Exception):
    """The task was never entered: its signature cannot take the arguments."""


def _check_arguments(spec: TaskSpec, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise _WrongArguments if they do not fit the signature; looked at only after a TypeError, because it costs."""
    import inspect

    try:
        signature = inspect.signature(spec.function)
    except (TypeError, ValueError):
        return
    # A dependency that failed is no wrong argument.
    given = {**dict.fromkeys(spec.depends), **kwargs}
    try:
        signature.bind(*args, **given)
    except TypeError as wrong:
        raise _WrongArguments(f"{spec.name}{signature}: {wrong}") from None


# --- outcomes ------------------------------------------------------------------------------------


def _returned(job: Job, value: Any) -> Outcome:
    """What a value that the task returned means: encoded, with the next step of its chain."""
    message = job.message
    wanted = message.result_ttl != 0 or message.group is not None
    fed = bool(message.chain) and message.chain[0].feed
    if not wanted and not fed and not isinstance(value, _UNRUN):
        if not message.chain:
            return _NOTHING
        return Returned(None, workflow.following(message, b"null"))
    try:
        result = codec.encode(value, "result")
    except NotEncodable as error:
        if isinstance(value, _UNRUN[:2]):
            value.close()
        return Rejected(describe(error), Reason.RESULT_REFUSED)
    if len(result) > job.result_max:
        return _too_large(f"the result has {len(result)} bytes, {job.result_max} are allowed")
    following = workflow.following(message, result)
    for step in following:
        if job.payload_max is not None and len(step.record()) > job.payload_max:
            return _too_large(
                f"with this result, {step.task} is larger than {job.payload_max} bytes"
            )
    return Returned(result if wanted else None, following)


def _too_large(text: str) -> Outcome:
    failure = Failure("millgate.errors.PayloadTooLarge", f"{text}; return a reference instead")
    return Rejected(failure, Reason.RESULT_REFUSED)


def _outcome_of(error: BaseException, surroundings: Surroundings) -> Outcome:
    failure = describe(error)
    if _asked(surroundings.cancelled):
        return Cancelled()
    if isinstance(error, Retry):
        return _retry(error, failure)
    if isinstance(error, Reject):
        return Rejected(failure)
    if isinstance(error, SoftTimeout):
        return Raised(_said(failure, "it ran past its soft timeout"), Reason.TIMED_OUT)
    if isinstance(error, MemoryError):
        return Raised(failure, Reason.MEMORY_EXCEEDED)
    if isinstance(error, _WrongArguments):
        named = Failure("millgate.errors.BadArguments", failure.message)
        return Rejected(named, Reason.BAD_ARGUMENTS)
    return Raised(failure)


def _outcome_of_async(error: BaseException, surroundings: Surroundings) -> Outcome:
    """As `_outcome_of`; the runtime stops a coroutine by cancelling it, and the surroundings say why. If they do not,
    it was the app itself, which has failed: given back uncharged, such a task would run again for ever."""
    if (
        type(error).__name__ == "CancelledError"
        and not _asked(surroundings.cancelled)
        and _asked(surroundings.soft_expired)
    ):
        return Raised(describe(SoftTimeout("cancelled at its soft timeout")), Reason.TIMED_OUT)
    return _outcome_of(error, surroundings)


def _said(failure: Failure, text: str) -> Failure:
    """The failure with `text`, if it has no words of its own."""
    return failure if failure.message else Failure(failure.error, text, failure.traceback)


def _retry(error: Retry, failure: Failure) -> Outcome:
    if error.after is None:
        return Raised(failure) if error.charge else RetryRequested(None, failure, charge=False)
    try:
        delay = parse_duration(error.after)
    except InvalidInput as wrong:
        return Raised(describe(wrong))
    if not delay < LONGEST:  # NaN neither
        text = f"Retry(after={error.after!r}): give less than {LONGEST:.0e} seconds"
        return Raised(describe(InvalidInput(text)))
    return RetryRequested(max(0.0, delay), failure, error.charge)


def _asked(question: Any) -> bool:
    try:
        return bool(question())
    except Exception:  # noqa: BLE001 -- a runtime that cannot answer has not cancelled
        return False
