"""Children that come to nothing: each lets the next start wait longer, and as long as the app was never there, some of
them are enough to give it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from millgate.clock import Clock
from millgate.errors import EXIT_APP, EXIT_LIMITS
from millgate.runtime.logs import Journal
from millgate.runtime.recycle import backoff
from millgate.shortage import of_processes

#: Children in a row that come to nothing, before any was ready, at which the app is given up.
_HOPELESS: Final = 6


class Tries:
    """To start a child. `give_up(code, problem)` is called when there is no use in another one."""

    def __init__(
        self, give_up: Callable[[int, str], None], *, journal: Journal, clock: Clock
    ) -> None:
        self.app_known = False  # whether some child has imported the app
        self._give_up = give_up
        self._journal = journal
        self._clock = clock
        self._failures = 0  # in a row
        self._next = 0.0

    def due(self, now: float) -> bool:
        """Whether it is time for the next."""
        return now >= self._next

    def succeeded(self) -> None:
        """A child is ready."""
        self.app_known = True
        self._failures = 0

    def postpone(self) -> float:
        """One more came to nothing; answers the seconds until the next may start."""
        self._failures += 1
        wait = backoff(self._failures)
        self._next = self._clock.monotonic() + wait
        return wait

    def failed(self, problem: str) -> None:
        """One more came to nothing, and this is why."""
        wait = self.postpone()
        self._journal.say("error", "child failed", problem=problem, next_try_in=wait)

    def ended(self, problem: str) -> None:
        """Its process ended before it was ready: if that is the app's doing, so will the next one's."""
        self.failed(problem)
        if not self.app_known and self._failures >= _HOPELESS:
            tries = f"no child gets as far as a task, {self._failures} tries"
            self._give_up(EXIT_APP, f"{tries}: {problem}")

    def refused(self, error: OSError, *, alone: bool) -> None:
        """The machine gives no process for it. `alone`: no child is there, not even one that begins: then the worker
        does nothing at all, and its end, unlike its silence, is seen. Once it has worked it waits for better times."""
        problem = f"cannot start a child: {of_processes(error) or error}"
        self.failed(problem)
        if alone and not self.app_known and self._failures >= _HOPELESS:
            self._give_up(EXIT_LIMITS, f"{problem} ({self._failures} tries)")

    def not_loaded(self, problem: str) -> None:
        """The app cannot be imported: at start that is the end, later somebody may mend it."""
        if self.app_known:
            self.failed(problem)
        else:
            self._give_up(EXIT_APP, problem)
