"""A call beside a loop has a thread and a context of its own, and holds up nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from millgate.aside import aside
from support.wait import eventually

_here: ContextVar[str] = ContextVar("here", default="")


def test_more_calls_wait_at_once_than_a_loop_has_threads() -> None:
    count = 50
    together = threading.Barrier(count, timeout=30)

    async def all_of_them() -> list[bool]:
        def meet(_gone: Callable[[], bool]) -> bool:
            together.wait()
            return True

        return await asyncio.gather(*(aside(meet) for _ in range(count)))

    assert asyncio.run(all_of_them()) == [True] * count


def test_it_runs_in_the_context_of_its_caller_and_answers_or_raises() -> None:
    def call(_gone: Callable[[], bool]) -> str:
        if _here.get() == "nowhere":
            raise LookupError(_here.get())
        return _here.get()

    async def main() -> str:
        _here.set("somewhere")
        answer = await aside(call)
        _here.set("nowhere")
        with pytest.raises(LookupError, match="nowhere"):
            await aside(call)
        return answer

    assert asyncio.run(main()) == "somewhere"


def test_a_call_learns_that_nobody_waits_and_keeps_no_loop_from_its_end() -> None:
    learnt = threading.Event()
    let = threading.Event()

    def call(gone: Callable[[], bool]) -> None:
        eventually(gone)
        learnt.set()
        assert let.wait(30)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(aside(call), 0.05)

    asyncio.run(main())  # ends although the call goes on
    assert learnt.wait(30)
    let.set()  # nobody is there any more to be told


def test_threads_of_others_keep_their_stacks() -> None:
    usual = threading.stack_size()

    async def main() -> int:
        await aside(lambda _gone: None)
        return threading.stack_size()

    assert asyncio.run(main()) == usual
