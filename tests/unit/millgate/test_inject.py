"""Dependencies: found by their defaults, made once in their scope, ended in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from threading import Barrier, Thread
from typing import Annotated, Any

import pytest

from millgate.errors import InvalidInput, SoftTimeout
from millgate.inject import Depends, Scope, dependencies, is_async


def provided() -> int:
    return 7


def filled(function: Callable[..., Any], scope: Scope) -> dict[str, Any]:
    given: dict[str, Any] = {}
    scope.fill(dependencies(function), given)
    return given


def test_only_parameters_with_a_provider_are_filled() -> None:
    def task(
        a: int, b: int = 1, c: int = Depends(provided), *, d: int = 2, e: int = Depends(provided)
    ) -> None: ...

    assert filled(task, Scope({})) == {"c": 7, "e": 7}


def test_a_dependency_that_is_only_annotated_is_refused_with_the_way_to_write_it() -> None:
    def task(a: int, db: Annotated[int, Depends(provided)]) -> None: ...

    with pytest.raises(InvalidInput, match=r"db: give Depends\(…\) as its default: db: … = "):
        dependencies(task)
    task.__annotations__["db"] = Annotated[int, Depends(provided)]
    with pytest.raises(InvalidInput, match="db: give"):
        dependencies(task)
    task.__annotations__["db"] = Annotated[int, "anything else"]
    assert dependencies(task) == {}


def test_a_wrapped_function_keeps_its_dependencies() -> None:
    def task(a: int = Depends(provided)) -> None: ...

    @wraps(task)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert list(dependencies(wrapper)) == ["a"]


def test_a_provider_is_asked_once_in_a_scope() -> None:
    made: list[int] = []

    def provider() -> int:
        made.append(1)
        return len(made)

    def other(x: int = Depends(provider)) -> int:
        return x

    def task(a: int = Depends(provider), b: int = Depends(other)) -> None: ...

    assert filled(task, Scope({})) == {"a": 1, "b": 1}


def test_what_follows_the_yield_runs_at_the_end_the_last_first() -> None:
    log: list[str] = []

    def outer() -> Iterator[str]:
        log.append("open outer")
        yield "o"
        log.append("close outer")

    def inner(o: str = Depends(outer)) -> Iterator[str]:
        log.append("open inner")
        yield o + "i"
        log.append("close inner")

    def task(x: str = Depends(inner)) -> None: ...

    scope = Scope({})
    assert filled(task, scope) == {"x": "oi"}
    scope.close()
    assert log == ["open outer", "open inner", "close inner", "close outer"]


def test_an_error_of_the_task_is_raised_at_the_yield() -> None:
    seen: list[BaseException] = []

    def session() -> Iterator[str]:
        try:
            yield "s"
        except ValueError as error:
            seen.append(error)
            raise

    def task(x: str = Depends(session)) -> None: ...

    scope, error = Scope({}), ValueError("no")
    filled(task, scope)
    scope.close(error)
    assert seen == [error]


def test_an_end_that_fails_is_raised_after_the_others_have_ended() -> None:
    log: list[str] = []

    def first() -> Iterator[None]:
        yield
        log.append("first")

    def second() -> Iterator[None]:
        yield
        raise OSError("disk")

    def task(a: None = Depends(first), b: None = Depends(second)) -> None: ...

    scope = Scope({})
    filled(task, scope)
    with pytest.raises(OSError, match="disk"):
        scope.close()
    assert log == ["first"]


def test_a_second_yield_is_a_mistake() -> None:
    def twice() -> Iterator[int]:
        yield 1
        yield 2

    def task(a: int = Depends(twice)) -> None: ...

    scope = Scope({})
    filled(task, scope)
    with pytest.raises(InvalidInput, match="yields once"):
        scope.close()


def test_the_scope_of_the_child_outlives_runs() -> None:
    log: list[str] = []

    def pool() -> Iterator[str]:
        log.append("open")
        yield "pool"
        log.append("close")

    def task(p: str = Depends(pool, scope="child")) -> None: ...

    child = Scope({})
    for _ in range(3):
        run = Scope({}, child)
        assert filled(task, run) == {"p": "pool"}
        run.close()
    assert log == ["open"]
    child.close()
    assert log == ["open", "close"]


def test_threads_share_one_value_of_the_child() -> None:
    made: list[int] = []
    together = Barrier(4)

    def provider() -> object:
        made.append(1)
        return object()

    def task(p: object = Depends(provider, scope="child")) -> None: ...

    child, found = Scope({}), []

    def one_run() -> None:
        together.wait()
        found.append(filled(task, Scope({}, child))["p"])

    threads = [Thread(target=one_run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(set(map(id, found))) == 1


def test_an_override_replaces_a_provider_wherever_it_is_used() -> None:
    def other(x: int = Depends(provided)) -> int:
        return x + 1

    def task(a: int = Depends(provided), b: int = Depends(other)) -> None: ...

    assert filled(task, Scope({provided: lambda: 1})) == {"a": 1, "b": 2}


def test_a_provider_that_failed_is_asked_again_by_the_next_run() -> None:
    answers: list[Any] = [OSError("down"), 5]

    def provider() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def task(a: int = Depends(provider, scope="child")) -> None: ...

    child = Scope({})
    with pytest.raises(OSError, match="down"):
        filled(task, Scope({}, child))
    assert filled(task, Scope({}, child)) == {"a": 5}


def test_a_plain_task_cannot_depend_on_async_code() -> None:
    async def provider() -> int:
        return 1

    def task(a: int = Depends(provider)) -> None: ...

    with pytest.raises(InvalidInput, match="only an async task"):
        filled(task, Scope({}))


def test_a_scope_has_one_of_two_names() -> None:
    with pytest.raises(InvalidInput, match="'task' or 'child'"):
        Depends(provided, scope="worker")


# --- async ---------------------------------------------------------------------------------------


async def filled_async(function: Callable[..., Any], scope: Scope) -> dict[str, Any]:
    given: dict[str, Any] = {}
    await scope.fill_async(dependencies(function), given)
    return given


def test_an_async_task_may_depend_on_anything() -> None:
    log: list[str] = []

    async def connection() -> AsyncIterator[str]:
        yield "c"
        log.append("closed")

    def plain(c: str = Depends(connection)) -> str:
        return c + "p"

    async def coroutine(p: str = Depends(plain), n: int = Depends(provided)) -> str:
        return f"{p}{n}"

    async def task(x: str = Depends(coroutine)) -> None: ...

    async def main() -> dict[str, Any]:
        scope = Scope({})
        given = await filled_async(task, scope)
        await scope.close_async()
        return given

    assert asyncio.run(main()) == {"x": "cp7"}
    assert log == ["closed"]


def test_runs_that_ask_at_once_share_what_the_child_makes() -> None:
    made: list[int] = []

    async def pool() -> int:
        made.append(1)
        await asyncio.sleep(0)
        return len(made)

    async def task(p: int = Depends(pool, scope="child")) -> None: ...

    async def main() -> list[dict[str, Any]]:
        child = Scope({})
        return await asyncio.gather(*(filled_async(task, Scope({}, child)) for _ in range(5)))

    assert asyncio.run(main()) == [{"p": 1}] * 5


def test_a_run_that_is_cancelled_does_not_take_the_childs_value_with_it() -> None:
    async def main() -> tuple[bool, dict[str, Any]]:
        go = asyncio.Event()

        async def pool() -> str:
            await go.wait()
            return "pool"

        async def task(p: str = Depends(pool, scope="child")) -> None: ...

        child = Scope({})
        first = asyncio.create_task(filled_async(task, Scope({}, child)))
        second = asyncio.create_task(filled_async(task, Scope({}, child)))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.sleep(0)
        go.set()
        return (await asyncio.gather(first, return_exceptions=True))[0] is not None, await second

    assert asyncio.run(main()) == (True, {"p": "pool"})


def test_an_async_end_sees_the_error() -> None:
    seen: list[str] = []

    async def session() -> AsyncIterator[int]:
        try:
            yield 1
        except ValueError:
            seen.append("rolled back")
            raise

    async def task(s: int = Depends(session)) -> None: ...

    async def main() -> None:
        scope = Scope({})
        await filled_async(task, scope)
        await scope.close_async(ValueError("no"))

    asyncio.run(main())
    assert seen == ["rolled back"]


def test_async_functions_are_told_from_plain_ones() -> None:
    async def one() -> None: ...

    async def generator() -> AsyncIterator[int]:
        yield 1

    assert is_async(one)
    assert not is_async(generator)
    assert not is_async(provided)
    assert not is_async(print)


@pytest.mark.parametrize("interruption", [SoftTimeout, KeyboardInterrupt, SystemExit])
def test_all_are_ended_though_one_is_interrupted(interruption: type[BaseException]) -> None:
    ended: list[str] = []

    def first() -> Iterator[str]:
        yield "first"
        ended.append("first")

    def second() -> Iterator[str]:
        yield "second"
        raise interruption

    scope = Scope({})
    scope.make(first)
    scope.make(second)
    with pytest.raises(interruption):
        scope.close()
    assert ended == ["first"]


def test_all_are_ended_though_one_is_cancelled() -> None:
    ended: list[str] = []

    async def first() -> AsyncIterator[str]:
        yield "first"
        ended.append("first")

    async def second() -> AsyncIterator[str]:
        yield "second"
        raise asyncio.CancelledError

    async def all_of_it() -> None:
        scope = Scope({}, Scope({}))
        await scope.make_async(first)
        await scope.make_async(second)
        with pytest.raises(asyncio.CancelledError):
            await scope.close_async()

    asyncio.run(all_of_it())
    assert ended == ["first"]
