"""Calls that may wait for long, beside an event loop: each has a thread of its own, so that none waits for another.

The loop's own pool of threads has a handful, which sends share with all else that a program hands to it.
"""

from __future__ import annotations

from _thread import allocate_lock, stack_size, start_new_thread
from collections.abc import Callable

from millgate.hints import Final, TypeVar

T = TypeVar("T")
#: Bytes of such a thread's stack, of which it uses little. The usual eight megabytes each would count, unused, against
#: what a child may reserve below a hard memory ceiling.
STACK: Final = 512 * 1024
_starting = allocate_lock()


def nobody() -> bool:
    """In place of what `aside` gives: there is somebody who waits."""
    return False


async def aside(call: Callable[[Callable[[], bool]], T]) -> T:
    """What `call` answers in a thread of this context, which keeps no process from its end. Raises what it raises.

    `call` is given a function that says whether its caller has been cancelled, so that it need not wait any longer.
    RuntimeError: there is no thread to be had.
    """
    import asyncio
    from contextlib import suppress
    from contextvars import copy_context

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def run() -> None:
        value = problem = None
        try:
            value = call(future.cancelled)
        except BaseException as error:  # noqa: BLE001 -- it belongs to whoever awaits it
            problem = error
        with suppress(RuntimeError):  # the loop has been closed: nobody awaits anything
            loop.call_soon_threadsafe(tell, value, problem)
        problem = None  # its traceback leads here: what the call held would outlive it

    with _starting:  # the size is one for the whole process
        usual = stack_size(STACK)
        try:
            start_new_thread(copy_context().run, (run,))
        finally:
            stack_size(usual)
    return await future
