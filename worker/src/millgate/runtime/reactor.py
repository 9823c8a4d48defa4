"""The io thread's loop: descriptors with callbacks, and calls that other threads post."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Reactor:
    """Used by one thread, but for `post` and `wake`."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.add(self._bell, self._answer_bell)

    def add(self, descriptor: int, callback: Callable[[int], None], mask: int = READ) -> None:
        """Call `callback(events)` whenever the descriptor is ready."""
        self._callbacks[descriptor] = callback
        self._epoll.register(descriptor, mask)

    def want(self, descriptor: int, mask: int) -> None:
        """Change what a descriptor waits for."""
        self._epoll.modify(descriptor, mask)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have the loop make this call soon; from any thread."""
        self._posted.append(lambda: call(*arguments))
        self.wake()

    def wake(self) -> None:
        """Make `turn` return; from any thread and from signal handlers."""
        with suppress(BlockingIOError):  # full: it is awake already
            os.eventfd_write(self._bell, 1)

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for something, then do it."""
        for descriptor, events in self._epoll.poll(timeout):
            callback = self._callbacks.get(descriptor)
            if callback is not None:  # an earlier callback may have removed it
                callback(events)
        for _ in range(len(self._posted)):
            self._posted.popleft()()

    def close(self) -> None:
        """Let all go."""
        self._epoll.close()
        os.close(self._bell)

    def _answer_bell(self, _events: int) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
