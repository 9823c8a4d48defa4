"""Coroutines that block their event loop: no cancellation reaches them, so a soft timeout is raised where they are.

Only in one that is in the midst of a step when it is told a second time. Any other is cancelled by its loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

from millgate.errors import SoftTimeout
from millgate.runtime.station import Station


class Blocked:
    """Used by the main thread, whose signal handlers call `look`."""

    def __init__(self, station: Station, loop: asyncio.AbstractEventLoop) -> None:
        self._station = station
        self._loop = loop
        self._runs: dict[asyncio.Task[Any], int] = {}
        self._heard: set[int] = set()
        self.raised: set[int] = set()  # numbers that need no cancellation any more

    def enter(self, task: asyncio.Task[Any], seq: int) -> None:
        """The user's part of a run is this task from now on."""
        self._runs[task] = seq

    def leave(self, task: asyncio.Task[Any]) -> None:
        """It has ended."""
        seq = self._runs.pop(task, 0)
        self._heard.discard(seq)
        self.raised.discard(seq)

    def look(self) -> None:
        """Raise SoftTimeout in the step that blocks the loop, if its run was told to end before and is told again."""
        task = asyncio.current_task(self._loop)
        seq = self._runs.get(task, 0) if task is not None else 0
        if task is None or not seq or task.cancelling() or seq in self.raised:
            return
        if not self._station.table.soft_expired(seq):
            return
        if seq not in self._heard:
            self._heard.add(seq)  # it may be at its next await in a moment
            return
        link = self._station.link
        if link.critical:
            link.deferred = self.look
            return
        self.raised.add(seq)
        raise SoftTimeout
