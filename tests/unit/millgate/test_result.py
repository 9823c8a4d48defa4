"""Waiting for what was sent: woken by the broker, ended by every end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from threading import Timer
from typing import Any

import pytest

from millgate import App, Reject, Result, as_completed, current, gather, gather_async, testing
from millgate.errors import InvalidInput, ResultMissing, ResultTimeout, TaskCancelled, TaskFailed
from millgate.task import Task


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def bench(app: App) -> Any:
    with testing.memory(app) as bench:
        yield bench


@pytest.fixture
def work(app: App) -> Task[..., Any]:
    @app.task(name="work", result_ttl="1h")
    def work(value: Any = None, fail: bool = False) -> Any:
        if fail:
            raise Reject("no")
        return value

    return work


def test_a_result_is_there_after_the_run(bench: testing.Bench, work: Task[..., Any]) -> None:
    result = work.send((1, {2}))
    bench.drain()
    assert result.result() == (1, {2})
    assert str(result.state()) == "succeeded"
    assert result.status().attempt == 1


def test_waiting_is_ended_by_the_run(bench: testing.Bench, work: Task[..., Any]) -> None:
    result = work.send(5)
    Timer(0.05, bench.run_due).start()
    assert result.result(timeout=10) == 5


def test_a_failure_is_raised_with_what_is_known_of_it(
    bench: testing.Bench, work: Task[..., Any]
) -> None:
    result = work.send(fail=True)
    bench.drain()
    with pytest.raises(
        TaskFailed, match=r"ended as Rejected: millgate\.errors\.Reject: no"
    ) as failed:
        result.result()
    assert failed.value.why == "Rejected"
    assert failed.value.failure.error == "millgate.errors.Reject"
    assert "in work" in failed.value.failure.traceback


def test_a_failure_without_words_ends_with_its_name(bench: testing.Bench, app: App) -> None:
    @app.task(name="silent", retries=0)
    def silent() -> None:
        raise ValueError

    result = silent.send()
    bench.drain()
    with pytest.raises(TaskFailed, match=r"ended as Failed: ValueError$"):
        result.result()


def test_a_cancelled_task_is_raised_as_such(bench: testing.Bench, work: Task[..., Any]) -> None:
    result = work.send()
    assert str(result.cancel()) == "removed"
    with pytest.raises(TaskCancelled):
        result.result()
    assert str(result.cancel()) == "finished"


def test_the_time_to_wait_is_kept(bench: testing.Bench, work: Task[..., Any]) -> None:
    with pytest.raises(ResultTimeout, match="may still run"):
        work.send().result(timeout=0.01)
    with pytest.raises(TimeoutError):
        work.send().result(timeout=0)


def test_nothing_is_known_of_a_stranger(bench: testing.Bench, app: App) -> None:
    with pytest.raises(ResultMissing, match="never sent"):
        app.get("stranger").result()
    with pytest.raises(ResultMissing):
        app.get("stranger", expected=True).result(timeout=0.01)


def test_a_result_that_is_not_kept_is_told_from_nothing(
    bench: testing.Bench, work: Task[..., Any]
) -> None:
    result = work.options(result_ttl=0).send(5)
    bench.drain()
    with pytest.raises(ResultMissing):
        result.result()


def test_a_result_expires(bench: testing.Bench, work: Task[..., Any]) -> None:
    result = work.send(5)
    bench.drain()
    bench.advance("61m")
    with pytest.raises(ResultMissing, match="expired"):
        result.result()


def test_progress_is_shown_while_the_task_runs(bench: testing.Bench, app: App) -> None:
    seen: list[Any] = []

    @app.task(name="slow")
    def slow() -> None:
        seen.append(app.get(current().id).progress())
        current().progress({"done": (1, 2)})
        seen.append(app.get(current().id).progress())

    slow.send()
    bench.drain()
    assert seen == [None, {"done": (1, 2)}]


def test_a_running_task_is_told_that_it_is_cancelled(bench: testing.Bench, app: App) -> None:
    @app.task(name="slow")
    def slow() -> None:
        assert not current().cancelled
        assert str(app.get(current().id).cancel()) == "signalled"
        assert current().cancelled
        raise Reject("stopped")

    result = slow.send()
    bench.drain()
    with pytest.raises(TaskCancelled):
        result.result()


# --- several -------------------------------------------------------------------------------------


def test_results_are_answered_as_they_end(bench: testing.Bench, work: Task[..., Any]) -> None:
    late, soon = work.send_in("1h", "late"), work.send("soon")
    order: list[Result] = []
    bench.run_due()
    for result in as_completed([late, soon, soon], timeout=5):
        order.append(result)
        bench.drain()
    assert order == [soon, late]


def test_all_results_are_gathered_in_their_order(
    bench: testing.Bench, work: Task[..., Any]
) -> None:
    results = work.send_many((number,) for number in range(5))
    bench.drain()
    assert gather([*results, results[0]], timeout=0) == [0, 1, 2, 3, 4, 0]
    assert gather([]) == []


def test_the_first_bad_end_is_raised(bench: testing.Bench, work: Task[..., Any]) -> None:
    results = [work.send(1), work.send(fail=True), work.send_in("1h", 2)]
    bench.run_due()
    with pytest.raises(TaskFailed):
        gather(results, timeout=10)


def test_what_is_left_after_the_time_is_an_error(
    bench: testing.Bench, work: Task[..., Any]
) -> None:
    with pytest.raises(ResultTimeout):
        gather([work.send(1)], timeout=0.01)


def test_results_of_two_apps_are_not_mixed(bench: testing.Bench, work: Task[..., Any]) -> None:
    other = App("memory://").get("x")
    with pytest.raises(InvalidInput, match="several apps"):
        gather([work.send(1), other])


@pytest.mark.parametrize("other", [1, "an-id", None])
def test_what_is_no_result_is_refused_in_words(
    bench: testing.Bench, work: Task[..., Any], other: Any
) -> None:
    with pytest.raises(InvalidInput, match=r"is no result: give what `send` answered"):
        gather([work.send(1), other])
    with pytest.raises(InvalidInput, match="is no result"):
        next(as_completed([other]))


def test_waiting_in_a_loop_leaves_it_free(bench: testing.Bench, work: Task[..., Any]) -> None:
    async def main() -> Any:
        one, two = work.send(1), work.send(2)
        waiting = asyncio.gather(one.result_async(10), gather_async([one, two], 10))
        await asyncio.sleep(0.01)
        bench.drain()
        return await waiting

    assert asyncio.run(main()) == [1, [1, 2]]


def test_many_may_wait_in_a_loop_and_sends_pass_them(
    bench: testing.Bench, work: Task[..., Any]
) -> None:
    count = 40  # more than the loop's own threads, of which there are 32 at most

    async def main() -> list[Any]:
        waiting = [asyncio.create_task(work.send(n).result_async(60)) for n in range(count)]
        await asyncio.sleep(0)  # each has its thread
        last = await asyncio.wait_for(work.send_async(count), 30)
        waiting.append(asyncio.create_task(last.result_async(60)))
        bench.drain()
        return await asyncio.gather(*waiting)

    assert asyncio.run(main()) == list(range(count + 1))


@pytest.mark.parametrize("other", [1, None, App("memory://").get("one")])
def test_what_is_not_several_results_is_refused_in_words(other: Any) -> None:
    for wait in (gather, lambda results: list(as_completed(results))):
        with pytest.raises(InvalidInput, match=r"several handles, such as \[first, second\]"):
            wait(other)


@pytest.mark.parametrize("timeout", ["10ms", timedelta(milliseconds=10), 0.01])
def test_a_time_to_wait_is_written_as_any_other(
    bench: testing.Bench, work: Task[..., Any], timeout: Any
) -> None:
    with pytest.raises(ResultTimeout):
        work.send().result(timeout)
    with pytest.raises(InvalidInput, match="'soon' is not a duration"):
        work.send().result("soon")
