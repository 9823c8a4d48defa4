"""One run: whatever user code does, the answer is an outcome, and the right one."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from millgate import App, Context, Depends, LockBusy, Reject, Retry, SoftTimeout, current
from millgate.brokers.base import State, TaskState
from millgate.execute import Job, run, run_async, start, start_async, stop, stop_async
from millgate.message import Message
from millgate.outcome import (
    Cancelled,
    Interrupted,
    Outcome,
    Raised,
    Reason,
    Rejected,
    RetryRequested,
    Returned,
)
from support.builders import a_message
from support.surroundings import FakeSurroundings


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def around() -> FakeSurroundings:
    return FakeSurroundings()


def work(app: App, function: Callable[..., Any], **fields: Any) -> Outcome:
    """Register `function` as the task, and run a message for it."""
    app.task(name="work")(function)
    surroundings = fields.pop("around", None) or FakeSurroundings()
    job = {name: fields.pop(name) for name in Job.__slots__ if name in fields}
    return run(app, Job(a_message(**fields), **job), surroundings)


# --- returning -----------------------------------------------------------------------------------


def test_a_value_comes_back_encoded(app: App) -> None:
    assert work(app, lambda: {"a": (1,)}) == Returned(b'{"a":{"$mg:tuple":[1]}}')


def test_nothing_is_a_value_too(app: App) -> None:
    assert work(app, lambda: None) == Returned(b"null")


def test_arguments_arrive_as_they_were_sent(app: App) -> None:
    def task(*args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    body = b'[[1,{"$mg:set":[2]}],{"k":"v"}]'
    assert work(app, task, body=body) == Returned(body)


def test_a_result_that_nobody_keeps_is_not_encoded(app: App) -> None:
    assert work(app, object, result_ttl=0.0) == Returned(None)


def test_a_result_that_cannot_travel_is_refused_and_not_run_again(app: App) -> None:
    outcome = work(app, lambda: {"when": object()})
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.RESULT_REFUSED
    assert "result['when']" in outcome.failure.message


def test_a_coroutine_that_nobody_awaited_is_refused(app: App) -> None:
    async def later() -> None: ...

    outcome = work(app, lambda: later())  # noqa: PLW0108 -- a plain function that answers a coroutine
    assert isinstance(outcome, Rejected)
    assert "coroutine" in outcome.failure.message


async def _coroutine() -> None: ...


def _generator() -> Iterator[int]:
    yield 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("result_ttl", [None, 0.0])
@pytest.mark.parametrize("unrun", [_coroutine, _generator, _async_generator])
def test_what_a_task_only_began_is_no_success_whether_its_result_is_kept_or_not(
    app: App, unrun: Callable[[], Any], result_ttl: float | None
) -> None:
    outcome = work(app, lambda: unrun(), result_ttl=result_ttl)  # noqa: PLW0108 -- as above
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.RESULT_REFUSED


def test_a_result_over_its_bound_is_refused(app: App) -> None:
    outcome = work(app, lambda: "x" * 100, result_max=101)
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.RESULT_REFUSED
    assert "102 bytes, 101 are allowed" in outcome.failure.message
    assert work(App("memory://"), lambda: "x" * 99, result_max=101) == Returned(
        b'"' + b"x" * 99 + b'"'
    )


def test_the_next_step_comes_back_with_the_result_in_its_arguments(app: App) -> None:
    fed = a_message(body=b'[[2],{"k":3}]', feed=True)
    last = a_message(body=b"[[],{}]")
    outcome = work(app, lambda: 1, chain=(fed, last))
    assert isinstance(outcome, Returned)
    [following] = outcome.publish
    assert (following.id, following.body, following.chain) == (fed.id, b'[[1,2],{"k":3}]', (last,))


def test_a_step_that_is_not_fed_gets_only_its_own_arguments(app: App) -> None:
    step = a_message(body=b"[[2],{}]")
    outcome = work(app, object, chain=(step,), result_ttl=0.0)
    assert isinstance(outcome, Returned)
    assert outcome.publish == (step,)


def test_a_next_step_that_became_too_large_is_refused(app: App) -> None:
    outcome = work(app, lambda: "x" * 1000, chain=(a_message(feed=True),), payload_max=1000)
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.RESULT_REFUSED


# --- not starting --------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"\xff", b"{}", b'[[{"$mg:as":["x",1]}],{}]'])
def test_a_body_that_cannot_be_read_is_buried(app: App, body: bytes) -> None:
    outcome = work(app, lambda: pytest.fail("it ran"), body=body)
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.UNDECODABLE


@pytest.mark.parametrize("body", [b"[[],{}]", b"[[1,2,3],{}]", b'[[1],{"b":1}]', b'[[1],{"a":1}]'])
def test_arguments_that_do_not_fit_are_buried(app: App, body: bytes) -> None:
    def task(a: int) -> None:
        pytest.fail("it ran")

    outcome = work(app, task, body=body)
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.BAD_ARGUMENTS
    assert outcome.failure.error == "millgate.errors.BadArguments"
    assert "work(a: " in outcome.failure.message


def test_a_type_error_of_the_task_itself_is_an_ordinary_failure(app: App) -> None:
    outcome = work(app, lambda a: a + "x", body=b"[[1],{}]")
    assert isinstance(outcome, Raised)
    assert outcome.failure.error == "TypeError"


def test_an_unknown_task_is_given_back_uncharged(app: App) -> None:
    assert run(app, Job(a_message(task="other")), FakeSurroundings()) == Interrupted(30.0)


def test_a_sender_cannot_choose_what_the_worker_provides(app: App) -> None:
    def task(db: str = Depends(lambda: "the real one")) -> str:
        return db

    outcome = work(app, task, body=b'[[],{"db":"mine"}]')
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.BAD_ARGUMENTS
    positional = work(App("memory://"), task, body=b'[["mine"],{}]')
    assert isinstance(positional, Rejected)
    assert positional.reason is Reason.BAD_ARGUMENTS


# --- raising -------------------------------------------------------------------------------------


def raising(error: BaseException | type[BaseException]) -> Callable[[], None]:
    def task() -> None:
        raise error

    return task


class Unruly(BaseException):
    def __str__(self) -> str:
        raise SystemExit(1)


@pytest.mark.parametrize(
    ("error", "name", "reason"),
    [
        (ValueError("no"), "ValueError", Reason.FAILED),
        (SystemExit(3), "SystemExit", Reason.FAILED),
        (KeyboardInterrupt(), "KeyboardInterrupt", Reason.FAILED),
        (GeneratorExit(), "GeneratorExit", Reason.FAILED),
        (RecursionError(), "RecursionError", Reason.FAILED),
        (StopIteration(), "StopIteration", Reason.FAILED),
        (MemoryError(), "MemoryError", Reason.MEMORY_EXCEEDED),
        (SoftTimeout(), "millgate.errors.SoftTimeout", Reason.TIMED_OUT),
        (BaseExceptionGroup("g", [KeyboardInterrupt()]), "BaseExceptionGroup", Reason.FAILED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_raised_is_an_outcome(
    app: App, error: BaseException, name: str, reason: Reason
) -> None:
    outcome = work(app, raising(error))
    assert isinstance(outcome, Raised)
    assert (outcome.failure.error, outcome.reason) == (name, reason)


def test_a_soft_timeout_without_words_says_what_it_is(app: App) -> None:
    outcome = work(app, raising(SoftTimeout()))
    assert isinstance(outcome, Raised)
    assert outcome.failure.message == "it ran past its soft timeout"
    outcome = work(app, raising(SoftTimeout("at row 7")))
    assert isinstance(outcome, Raised)
    assert outcome.failure.message == "at row 7"


def test_an_exception_that_cannot_even_be_described_is_an_outcome(app: App) -> None:
    outcome = work(app, raising(Unruly()))
    assert isinstance(outcome, Raised)
    assert outcome.failure.error.endswith("Unruly")


def test_an_endless_recursion_is_an_outcome(app: App) -> None:
    def task() -> None:
        task()

    outcome = work(app, task)
    assert isinstance(outcome, Raised)
    assert outcome.failure.error == "RecursionError"


def test_the_traceback_begins_in_the_users_code(app: App) -> None:
    outcome = work(app, raising(ValueError("no")))
    assert isinstance(outcome, Raised)
    assert outcome.failure.traceback.splitlines()[1].endswith("in task")


def test_retry_asks_for_its_time(app: App) -> None:
    outcome = work(app, raising(Retry("busy", after="90s")))
    assert isinstance(outcome, RetryRequested)
    assert (outcome.delay, outcome.charge, outcome.failure.message) == (90.0, True, "busy")


def test_retry_without_a_time_follows_the_backoff(app: App) -> None:
    assert isinstance(work(app, raising(Retry)), Raised)


def test_retry_may_be_free(app: App) -> None:
    outcome = work(app, raising(Retry(after=5, charge=False)))
    assert isinstance(outcome, RetryRequested)
    assert (outcome.delay, outcome.charge) == (5.0, False)


def test_a_free_retry_without_a_time_follows_the_backoff_too(app: App) -> None:
    outcome = work(app, raising(Retry(charge=False)))
    assert isinstance(outcome, RetryRequested)
    assert (outcome.delay, outcome.charge) == (None, False)


def test_retry_with_a_time_that_is_none_is_a_failure_that_says_so(app: App) -> None:
    outcome = work(app, raising(Retry(after="soon")))
    assert isinstance(outcome, Raised)
    assert "'soon' is not a duration" in outcome.failure.message


@pytest.mark.parametrize("after", [float("inf"), 1e300, float("nan")])
def test_retry_at_no_moment_that_stores_know_is_a_failure_that_says_so(
    app: App, after: float
) -> None:
    outcome = work(app, raising(Retry(after=after)))
    assert isinstance(outcome, Raised)
    assert "give less than" in outcome.failure.message


def test_reject_ends_it_now(app: App) -> None:
    outcome = work(app, raising(Reject("pointless")))
    assert isinstance(outcome, Rejected)
    assert (outcome.reason, outcome.failure.message) == (Reason.REJECTED, "pointless")


def test_a_cancelled_run_that_stops_is_cancelled(app: App, around: FakeSurroundings) -> None:
    around.is_cancelled = True
    assert work(app, raising(ValueError), around=around) == Cancelled()


def test_a_cancelled_run_that_ends_anyway_has_its_result(
    app: App, around: FakeSurroundings
) -> None:
    around.is_cancelled = True
    assert work(app, lambda: 1, around=around) == Returned(b"1")


def test_a_runtime_that_cannot_answer_does_not_hide_the_failure(app: App) -> None:
    class Deaf(FakeSurroundings):
        def cancelled(self) -> bool:
            raise OSError("gone")

    assert isinstance(work(app, raising(ValueError), around=Deaf()), Raised)


# --- groups --------------------------------------------------------------------------------------


def member(name: str, state: State = State.SUCCEEDED, result: bytes | None = b"1") -> TaskState:
    return TaskState(name, state, result=result)


def test_the_results_of_members_come_first_in_their_order(app: App) -> None:
    states = (member("a", result=b"[1]"), member("b", result=b'{"$mg:set":[2]}'))
    outcome = work(
        app, lambda *args: list(args), body=b"[[3],{}]", gather=("a", "b"), gathered=states
    )
    assert outcome == Returned(b'[[[1],{"$mg:set":[2]}],3]')


def test_a_member_whose_result_is_gone_buries_the_callback(app: App) -> None:
    states = (member("a"), member("b", State.UNKNOWN, None))
    outcome = work(app, lambda _: pytest.fail("it ran"), gather=("a", "b"), gathered=states)
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.MEMBER_FAILED
    assert "member b" in outcome.failure.message


def test_a_callback_whose_results_were_not_fetched_is_a_failure(app: App) -> None:
    assert isinstance(work(app, lambda _: None, gather=("a",)), Raised)


# --- the context ---------------------------------------------------------------------------------


def test_the_context_tells_and_asks(app: App, around: FakeSurroundings) -> None:
    def task() -> list[Any]:
        here = current()
        here.progress({"done": 1})
        return [here.id, here.attempt, here.failures, here.topic, here.task, here.headers, here.key]

    outcome = work(
        app, task, id="m", attempt=3, failures=2, around=around, headers={"a": "b"}, key="k"
    )
    assert outcome == Returned(b'["m",3,2,"default","work",{"a":"b"},"k"]')
    assert around.reported == [b'{"done":1}']


def test_the_context_is_gone_after_the_run(app: App) -> None:
    work(app, raising(ValueError))
    with pytest.raises(ValueError, match="no task runs here"):
        current()


def test_a_lock_is_held_for_the_block(app: App, around: FakeSurroundings) -> None:
    def task() -> int:
        with current().lock("name") as lock:
            assert around.held == {"name": 1}
            return lock.fence

    assert work(app, task, around=around) == Returned(b"1")
    assert around.held == {}


def test_a_held_lock_sends_the_task_back_uncharged(app: App, around: FakeSurroundings) -> None:
    def task() -> None:
        with current().lock("name", retry="7s"):
            pytest.fail("it ran unlocked")

    around.held["name"] = 9
    outcome = work(app, task, around=around)
    assert isinstance(outcome, RetryRequested)
    assert (outcome.delay, outcome.charge) == (7.0, False)
    assert around.held == {"name": 9}


def test_a_held_lock_may_be_taken_as_a_reason_to_give_up(
    app: App, around: FakeSurroundings
) -> None:
    def task() -> None:
        try:
            with current().lock("name"):
                pass
        except LockBusy as busy:
            raise Reject from busy

    around.held["name"] = 9
    assert isinstance(work(app, task, around=around), Rejected)


def test_a_lock_that_was_lost_is_told(app: App, around: FakeSurroundings) -> None:
    def task() -> None:
        with current().lock("name"):
            around.lost.add("name")

    outcome = work(app, task, around=around)
    assert isinstance(outcome, Raised)
    assert outcome.failure.error == "millgate.errors.LockLost"


# --- middleware ----------------------------------------------------------------------------------


def test_the_first_middleware_is_outermost(app: App) -> None:
    log: list[str] = []

    def layer(name: str) -> Callable[[Context], Iterator[None]]:
        def middleware(context: Context) -> Iterator[None]:
            log.append(f"{name} before {context.task}")
            result = yield
            log.append(f"{name} after {result}")

        return middleware

    app.middleware(layer("outer"))
    app.middleware(layer("inner"))
    work(app, lambda: 1)
    assert log == ["outer before work", "inner before work", "inner after 1", "outer after 1"]


def test_a_middleware_sees_the_exception_and_may_swallow_it(app: App) -> None:
    @app.middleware
    def forgiving(_: Context) -> Any:
        try:
            yield
        except ValueError:
            return "forgiven"

    assert work(app, raising(ValueError)) == Returned(b'"forgiven"')


def test_a_stop_iteration_goes_through_a_middleware_as_it_is(app: App) -> None:
    @app.middleware
    def middleware(context: Context) -> Iterator[None]:
        yield

    outcome = work(app, raising(StopIteration("no more")))
    assert isinstance(outcome, Raised)
    assert (outcome.failure.error, outcome.failure.message) == ("StopIteration", "no more")


def test_a_middleware_may_replace_the_result(app: App) -> None:
    @app.middleware
    def doubling(_: Context) -> Any:
        result = yield
        return result * 2

    assert work(app, lambda: 2) == Returned(b"4")


def test_a_middleware_may_keep_the_task_from_running(app: App) -> None:
    log: list[str] = []

    @app.middleware
    def outer(_: Context) -> Any:
        result = yield
        log.append(result)

    @app.middleware
    def cached(_: Context) -> Any:
        if app is not None:
            return "cached"
        yield

    assert work(app, lambda: pytest.fail("it ran")) == Returned(b'"cached"')
    assert log == ["cached"]


def test_a_middleware_that_raises_before_the_run_ends_it_and_the_outer_ones_see_it(
    app: App,
) -> None:
    seen: list[str] = []

    @app.middleware
    def outer(_: Context) -> Any:
        try:
            yield
        except Reject as error:
            seen.append(str(error))
            raise

    @app.middleware
    def refusing(_: Context) -> Any:
        raise Reject("closed")
        yield

    assert isinstance(work(app, lambda: pytest.fail("it ran")), Rejected)
    assert seen == ["closed"]


def test_a_middleware_that_yields_twice_is_a_failure(app: App) -> None:
    @app.middleware
    def twice(_: Context) -> Any:
        yield
        yield

    outcome = work(app, lambda: 1)
    assert isinstance(outcome, Raised)
    assert "a middleware yields once" in outcome.failure.message


def test_a_middleware_that_turns_out_to_be_no_generator_is_a_failure(app: App) -> None:
    app.middleware(partial(lambda _: None))  # nobody can see what it will make
    assert isinstance(work(app, lambda: 1), Raised)


# --- dependencies --------------------------------------------------------------------------------


def test_a_middleware_that_cannot_be_ended_hides_nothing_from_the_outer_ones(app: App) -> None:
    seen: list[BaseException] = []

    @app.middleware
    def outer(_: Context) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            seen.append(error)
            raise

    @app.middleware
    def twice(_: Context) -> Iterator[None]:
        yield
        try:
            yield
        finally:
            raise OSError

    assert isinstance(work(app, lambda: 1), Raised)
    assert len(seen) == 1


@pytest.mark.parametrize("how", ["plain", "middleware", "dependency", "async"])
def test_what_a_failed_task_held_is_free_when_it_has_ended(app: App, how: str) -> None:
    held: list[weakref.ref[Any]] = []

    def provide() -> Iterator[int]:
        yield 1

    def fail() -> None:
        thing = Unruly()
        held.append(weakref.ref(thing))
        raise ValueError

    def middleware(_: Context) -> Iterator[None]:
        yield

    async def later(_: int = Depends(provide)) -> None:
        fail()

    if how == "middleware":
        app.middleware(middleware)
    tasks: dict[str, Callable[..., Any]] = {
        "async": later,
        "dependency": lambda _=Depends(provide): fail(),
    }
    gc.collect()
    gc.disable()
    try:
        assert isinstance(work(app, tasks.get(how, fail)), Raised)
        assert held[0]() is None
    finally:
        gc.enable()


def test_dependencies_are_filled_and_ended(app: App) -> None:
    log: list[str] = []

    def session() -> Iterator[str]:
        log.append("begin")
        yield "session"
        log.append("commit")

    def task(a: int, s: str = Depends(session)) -> str:
        return f"{s} {a}"

    assert work(app, task, body=b"[[1],{}]") == Returned(b'"session 1"')
    assert log == ["begin", "commit"]


def test_a_commit_that_fails_is_a_failure_of_the_run(app: App) -> None:
    def session() -> Iterator[None]:
        yield
        raise OSError("disk")

    def task(s: None = Depends(session)) -> int:
        return 1

    outcome = work(app, task)
    assert isinstance(outcome, Raised)
    assert outcome.failure.message == "disk"


def test_a_provider_that_raises_a_type_error_is_no_wrong_argument(app: App) -> None:
    def provider() -> None:
        raise TypeError("mine")

    def task(p: None = Depends(provider)) -> None: ...

    outcome = work(app, task)
    assert isinstance(outcome, Raised)
    assert outcome.failure.message == "mine"


def test_what_lives_with_the_child_ends_with_it(app: App) -> None:
    log: list[str] = []

    def pool() -> Iterator[str]:
        log.append("open")
        yield "pool"
        log.append("close")

    app.on_start(lambda: log.append("start"))
    app.on_stop(lambda: log.append("stop"))

    def task(p: str = Depends(pool, scope="child")) -> str:
        return p

    start(app)
    for _ in range(2):
        assert work(app, task) == Returned(b'"pool"')
    stop(app)
    assert log == ["start", "open", "stop", "close"]


@pytest.mark.parametrize("error", [OSError("bad"), SystemExit("bad")])
def test_all_stop_hooks_run_and_the_first_error_is_raised(app: App, error: BaseException) -> None:
    log: list[str] = []

    def bad() -> None:
        raise error

    app.on_stop(lambda: log.append("registered first"))
    app.on_stop(bad)
    with pytest.raises(type(error), match="bad"):
        stop(app)
    assert log == ["registered first"]


# --- async ---------------------------------------------------------------------------------------


def test_an_async_task_runs_in_a_loop_of_its_own_when_there_is_none(app: App) -> None:
    async def task(a: int) -> int:
        await asyncio.sleep(0)
        return a + 1

    assert work(app, task, body=b"[[1],{}]") == Returned(b"2")


def test_async_runs_share_a_loop_and_keep_their_contexts(app: App) -> None:
    async def task() -> str:
        await asyncio.sleep(0)
        return current().id

    app.task(name="work")(task)

    async def main() -> list[Outcome]:
        jobs = [Job(a_message(id=f"x{number}")) for number in range(3)]
        return await asyncio.gather(*(run_async(app, job, FakeSurroundings()) for job in jobs))

    assert asyncio.run(main()) == [Returned(f'"x{number}"'.encode()) for number in range(3)]


def test_middleware_and_dependencies_surround_async_tasks_too(app: App) -> None:
    log: list[str] = []

    @app.middleware
    def logged(_: Context) -> Any:
        log.append("before")
        yield
        log.append("after")

    async def connection() -> Any:
        yield "c"
        log.append("closed")

    async def task(c: str = Depends(connection)) -> str:
        return c

    assert work(app, task) == Returned(b'"c"')
    assert log == ["before", "closed", "after"]


def cancelled(app: App, around: FakeSurroundings, prepare: Callable[[], None]) -> Outcome:
    """The outcome of an async run that the runtime cancels."""

    async def task() -> None:
        await asyncio.sleep(60)

    app.task(name="work")(task)

    async def main() -> Outcome:
        running = asyncio.create_task(run_async(app, Job(a_message()), around))
        await asyncio.sleep(0.01)
        prepare()
        running.cancel()
        return await running

    return asyncio.run(main())


def test_a_coroutine_that_the_runtime_stops_is_what_the_surroundings_say(app: App) -> None:
    def around(**state: bool) -> FakeSurroundings:
        made = FakeSurroundings()
        for name, value in state.items():
            setattr(made, name, value)
        return made

    assert cancelled(app, around(is_cancelled=True), lambda: None) == Cancelled()
    expired = cancelled(App("memory://"), around(is_soft_expired=True), lambda: None)
    assert isinstance(expired, Raised)
    assert expired.reason is Reason.TIMED_OUT
    by_the_app = cancelled(App("memory://"), around(), lambda: None)
    assert isinstance(by_the_app, Raised)
    assert by_the_app.reason is Reason.FAILED


async def _raises_it() -> None:
    raise asyncio.CancelledError


async def _cancels_itself() -> None:
    running = asyncio.current_task()
    assert running is not None
    running.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize("task", [_raises_it, _cancels_itself])
def test_a_coroutine_that_cancels_itself_has_failed(app: App, task: Any) -> None:
    outcome = work(app, task)
    assert isinstance(outcome, Raised)
    assert outcome.failure.error.endswith("CancelledError")


def test_async_hooks_need_the_loop(app: App) -> None:
    log: list[str] = []

    @app.on_start
    async def opened() -> None:
        log.append("start")

    @app.on_stop
    async def closed() -> None:
        log.append("stop")

    assert app.needs_loop

    async def main() -> None:
        await start_async(app)
        await stop_async(app)

    asyncio.run(main())
    assert log == ["start", "stop"]
    with pytest.raises(ValueError, match="no event loop"):
        start(app)


# --- threads -------------------------------------------------------------------------------------


def test_runs_in_threads_keep_their_contexts(app: App) -> None:
    together = threading.Barrier(2)

    def task() -> str:
        together.wait()
        return current().id

    app.task(name="work")(task)
    outcomes: dict[str, Outcome] = {}

    def one(message: Message) -> None:
        outcomes[message.id] = run(app, Job(message), FakeSurroundings())

    threads = [threading.Thread(target=one, args=(a_message(id=name),)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {"a": Returned(b'"a"'), "b": Returned(b'"b"')}
