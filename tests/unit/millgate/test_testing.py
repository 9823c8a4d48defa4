"""The test kit settles as a worker does, and waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from threading import Thread
from typing import Any

import pytest

from millgate import App, Depends, Retry, SoftTimeout, chord, current, gather_async, testing
from millgate.errors import MillgateError, ResultTimeout, UnknownTask
from millgate.outcome import Reason, Returned
from millgate.queues import QueuePolicy, TopicPolicy
from millgate.retry import RetryPolicy
from millgate.settlement import Ack, Bury, Later
from support.builders import a_message


@pytest.fixture
def app() -> App:
    return App("memory://")


def failing(app: App, times: int, **settings: Any) -> Any:
    """A task that fails that often."""
    attempts: list[int] = []

    @app.task(name="flaky", **settings)
    def flaky() -> int:
        attempts.append(current().attempt)
        if len(attempts) <= times:
            raise ValueError("no")
        return len(attempts)

    return flaky


def test_an_eager_send_has_run_when_it_answers(app: App) -> None:
    task = app.task(name="t")(lambda a: a + 1)
    with testing.eager(app):
        assert task.send(1).result(0) == 2
        assert task.send_in("30d", 1).result(0) == 2


def test_an_eager_task_is_retried_without_waiting(app: App) -> None:
    with testing.eager(app) as bench:
        before = bench.time.now()
        assert (
            failing(app, 2, retries=2, backoff={"initial": 60, "jitter": "none"}).send().result(0)
            == 3
        )
        assert bench.time.now() - before == pytest.approx(60 + 120)


def test_an_eager_failure_may_be_raised_by_the_send(app: App) -> None:
    with testing.eager(app, raising=True), pytest.raises(ValueError, match="no"):
        failing(app, 9, retries=2).send()


def test_a_soft_timeout_may_be_raised_by_a_test(app: App) -> None:
    @app.task(name="t", retries=0)
    def task() -> None:
        raise SoftTimeout

    with testing.memory(app) as bench:
        task.send()
        [run] = bench.drain()
        assert isinstance(run.settlement, Bury)
        assert run.settlement.reason is Reason.TIMED_OUT


def test_an_eager_task_may_wait_for_another(app: App) -> None:
    inner = app.task(name="inner", retries=1)(lambda: current().attempt)
    again: list[int] = []

    @app.task(name="outer")
    def outer() -> Any:
        again.append(1)
        return [inner.send_in("10m").result(0), len(again)]

    with testing.eager(app):
        assert outer.send().result(0) == [1, 1]


def test_eager_works_inside_a_running_loop(app: App) -> None:
    @app.task(name="t")
    async def task() -> int:
        await asyncio.sleep(0)
        return 5

    async def main() -> Any:
        return task.send().result(0), (await task.send_async()).result(0)

    with testing.eager(app):
        assert asyncio.run(main()) == (5, 5)


def test_the_app_has_its_own_broker_again_after_the_block(app: App) -> None:
    before = app.broker
    with testing.memory(app), testing.eager(app):
        assert app.broker is not before
    assert app.broker is before
    assert app.middlewares == []


def test_runs_are_told_in_order_with_their_settlements(app: App) -> None:
    task = failing(app, 1, retries=1)
    with testing.memory(app) as bench:
        task.send()
        first, second = bench.drain()
        assert isinstance(first.settlement, Later)
        assert isinstance(second.settlement, Ack)
        assert (second.attempt, second.outcome) == (2, Returned(b"2"))


def test_only_what_is_due_runs_until_time_passes(app: App) -> None:
    task = app.task(name="t")(lambda: None)
    with testing.memory(app) as bench:
        task.send_in("1h")
        assert bench.run_due() == []
        assert bench.advance("59m59s") == []
        assert len(bench.advance(1)) == 1


def test_the_policies_of_the_queue_hold(app: App) -> None:
    policy = TopicPolicy("default", retry=RetryPolicy(attempts=3))
    with testing.memory(app) as bench:
        bench.broker.configure([policy], QueuePolicy())
        failing(app, 9).send()
        assert len(bench.drain()) == 3
        [dead] = bench.broker.dead()
        assert (dead.reason, dead.failures) == ("Failed", 3)


def test_retry_that_is_free_is_not_counted(app: App) -> None:
    @app.task(name="t", retries=0)
    def task() -> str:
        if current().attempt < 20:
            raise Retry(after=1, charge=False)
        return "at last"

    with testing.eager(app):
        assert task.send().result(0) == "at last"


def test_a_lock_is_held_by_one_run(app: App) -> None:
    @app.task(name="inner", retries=0)
    def inner() -> None:
        with current().lock("name"):
            raise AssertionError("it has the lock too")

    @app.task(name="outer")
    def outer() -> Any:
        with current().lock("name") as lock:
            result = inner.options(expires=10).send()
            return [lock.fence, str(result.state())]

    with testing.memory(app) as bench:
        held = outer.send()
        bench.run_due()
        assert held.result(0) == [1, "waiting"]


def test_a_message_that_nobody_can_read_is_buried(app: App) -> None:
    app.task(name="work")(lambda: None)
    with testing.memory(app) as bench:
        bench.broker.publish([a_message(body=b"\xff")])
        bench.drain()
        [dead] = bench.broker.dead()
        assert dead.reason == "Undecodable"


def test_a_task_that_the_app_does_not_have_is_a_mistake_of_the_test(app: App) -> None:
    with testing.memory(app) as bench:
        bench.broker.publish([a_message(task="other")])
        with pytest.raises(UnknownTask, match="no task 'other'; it has none"):
            bench.drain()


def test_a_task_that_sends_itself_does_not_run_for_ever(app: App) -> None:
    @app.task(name="t")
    def task() -> None:
        task.send()

    with testing.memory(app):
        task.send()
        with pytest.raises(MillgateError, match="still work after 50 runs"):
            testing.drain(app, limit=50)


@pytest.mark.parametrize("result_ttl", [0.0, 5.0])
def test_a_chord_waits_longer_than_its_topic_keeps_results(app: App, result_ttl: float) -> None:
    one = app.task(name="one")(lambda number: number)
    total = app.task(name="total")(sum)
    with testing.memory(app) as bench:
        bench.broker.configure([TopicPolicy("default", result_ttl=result_ttl)])
        sent = chord(
            [one.s(1), one.options(delay="1h").s(2)], total.options(result_ttl=60).s()
        ).send()
        bench.drain()
        assert sent.result(0) == 3


@pytest.mark.parametrize("mode", [testing.eager, testing.memory])
def test_what_lives_with_a_child_lives_with_the_block(app: App, mode: Any) -> None:
    seen: list[str] = []

    def connect() -> Iterator[list[int]]:
        seen.append("made")
        yield []
        seen.append("ended")

    @app.task(name="t")
    def task(number: int, known: list[int] = Depends(connect, scope="child")) -> list[int]:
        known.append(number)
        return list(known)

    for _ in range(2):
        with mode(app) as bench:
            handles = [task.send(1), task.send(2)]
            bench.drain()
            assert [handle.result(0) for handle in handles] == [[1], [1, 2]]
    assert seen == ["made", "ended"] * 2


async def _resource() -> AsyncIterator[int]:
    yield 7


def test_an_async_provider_of_that_scope_ends_with_its_loop(app: App) -> None:
    @app.task(name="t")
    async def task(number: int = Depends(_resource, scope="child")) -> int:
        return number

    with testing.eager(app):
        assert task.send().result(0) == 7


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
    writer.close()


async def _connection() -> AsyncIterator[Any]:
    """Two ends that belong to the loop in which they were made."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    ends = await asyncio.open_connection(*server.sockets[0].getsockname())
    yield ends
    ends[1].close()
    await ends[1].wait_closed()
    server.close()


def _asking(app: App) -> Any:
    @app.task(name="ask", retries=0)
    async def ask(text: str, ends: Any = Depends(_connection, scope="child")) -> str:
        reader, writer = ends
        writer.write(f"{text}\n".encode())
        return str((await reader.readline()).decode().strip())

    return ask


@pytest.mark.parametrize("mode", [testing.eager, testing.memory])
def test_async_tasks_of_a_block_share_a_loop_as_those_of_a_child_do(app: App, mode: Any) -> None:
    ask = _asking(app)
    with mode(app) as bench:
        handles = [ask.send("one"), ask.send("two")]
        bench.drain()
        assert [handle.result(0) for handle in handles] == ["one", "two"]


def test_they_share_it_also_beside_the_loop_of_a_test(app: App) -> None:
    ask = _asking(app)

    async def a_test() -> list[Any]:
        with testing.eager(app):
            blocking = ask.send("blocking")
            free = [await ask.send_async(text) for text in ("one", "two")]
            return await gather_async([blocking, *free], 0)

    assert asyncio.run(a_test()) == ["blocking", "one", "two"]


def test_an_async_task_may_wait_for_another_in_both_ways(app: App) -> None:
    @app.task(name="inner")
    async def inner(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    @app.task(name="outer")
    async def outer() -> list[int]:
        free = await inner.send_async(1)
        return [await free.result_async(0), inner.send(2).result(0)]

    with testing.eager(app):
        assert outer.send().result(0) == [2, 3]


def test_a_result_that_nothing_brings_is_not_waited_for_without_end(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "PATIENCE", 0.05)
    task = app.task(name="t")(lambda: 1)
    with testing.memory(app) as bench:
        handle = task.send()
        for timeout in (None, 30):
            with pytest.raises(ResultTimeout, match=r"call run_due\(\), drain\(\) or advance"):
                handle.result(timeout)
        monkeypatch.undo()
        elsewhere = Thread(target=bench.run_due)
        elsewhere.start()
        assert handle.result() == 1
        elsewhere.join()
