"""The io thread's loop: descriptors with callbacks, and calls that other threads post."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable
from typing import Any

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Reactor:
    """Used by one thread, but for `post` and `wake`."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._posted: deque[Callable[[], None]] = deque()
        self._first: set[int] = set()
        self._rung = False
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # each ring is news, so that nobody reads it: a call to the kernel hands the interpreter over
        self.add(self._bell, lambda _events: None, READ | select.EPOLLET)

    def add(
        self,
        descriptor: int,
        callback: Callable[[int], None],
        mask: int = READ,
        *,
        first: bool = False,
    ) -> None:
        """Call `callback(events)` whenever the descriptor is ready; `first`: before others of the same moment."""
        self._callbacks[descriptor] = callback
        if first:
            self._first.add(descriptor)
        self._epoll.register(descriptor, mask)

    def want(self, descriptor: int, mask: int) -> None:
        """Change what a descriptor waits for."""
        self._epoll.modify(descriptor, mask)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed."""
        self._first.discard(descriptor)
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have the loop make this call soon; from any thread."""
        self._posted.append(lambda: call(*arguments))
        self.wake()

    def wake(self) -> None:
        """Make `turn` return; from any thread and from signal handlers."""
        if self._rung:
            return
        self._rung = True
        os.eventfd_write(self._bell, 1)

    def turn(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for something, then do it."""
        ready = self._epoll.poll(timeout)
        self._rung = False  # what is posted from here on rings again
        if len(ready) > 1 and self._first:
            ready.sort(key=lambda pair: pair[0] not in self._first)
        for descriptor, events in ready:
            callback = self._callbacks.get(descriptor)
            if callback is not None:  # an earlier callback may have removed it
                callback(events)
        for _ in range(len(self._posted)):
            self._posted.popleft()()

    def close(self) -> None:
        """Let all go."""
        self._epoll.close()
        os.close(self._bell)
