"""Every claim that this worker holds, from the claim to the answer to its settlement. The one list that threads share.

A run is *active* until it has a settlement, *settled* until the broker has taken that; it is renewed in both states,
so that an outcome which waits for a lost broker stays this worker's to report.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from millgate.brokers.base import MAX_BATCH
from millgate.message import Claim, ClaimRef
from millgate.runtime.recycle import Because
from millgate.runtime.terms import Terms
from millgate.settlement import Settlement


@dataclass(slots=True, eq=False)
class Run:
    """One claim on its way through this worker. The broker thread makes it; then only the io thread changes it."""

    claim: Claim
    task: str
    terms: Terms
    gathered: list[Any] | None = None
    arrived: float = 0.0  # monotonic, when it was claimed
    seq: int = 0  # its number in the child that has it; 0: in none
    stopping: Because | None = None  # why it was told to stop
    stopped_at: float = 0.0  # monotonic, when it was told
    soft: bool = False  # it was told to come to an end
    asked_at: float = 0.0  # monotonic, when it was last told so
    asked: int = 0  # how often
    drained: bool = False  # … by a drain, so its end is charged to nobody
    ended: bool = False  # it has a settlement, or is not ours any more


@dataclass(slots=True)
class Entry:
    """A settlement on its way to the broker."""

    run: Run
    settlement: Settlement


@dataclass(slots=True)
class Ledger:
    """Thread-safe. `woken` is called (without the lock) whenever there is something new to settle."""

    woken: Callable[[], None] = lambda: None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: dict[str, Run] = field(default_factory=dict)  # by token
    _out: list[Entry] = field(default_factory=list)
    _sent: set[str] = field(default_factory=set)  # tokens whose settlement the broker has now
    _active: int = 0
    #: Of all that came since nothing was held, or since the last renewal.
    _shortest: float | None = None

    def add(self, runs: Iterable[Run]) -> None:
        """Claims that the broker handed over."""
        with self._lock:
            for run in runs:
                self._held[run.claim.token] = run
                self._active += 1
                if self._shortest is None or run.claim.lease < self._shortest:
                    self._shortest = run.claim.lease

    def settle(self, run: Run, settlement: Settlement) -> None:
        """The run has ended; a second end of the same run changes nothing."""
        self.settle_all([(run, settlement)])

    def settle_all(self, ends: Iterable[tuple[Run, Settlement]]) -> None:
        """As `settle`, of several."""
        with self._lock:
            before = len(self._out)
            for run, settlement in ends:
                if not run.ended:
                    run.ended = True
                    self._active -= 1
                    self._out.append(Entry(run, settlement))
            new = len(self._out) > before
        if new:
            self.woken()

    def forget(self, run: Run) -> bool:
        """The broker said that the claim is not ours: nothing will be reported. False: it said so because it has, or
        has had, our own settlement; the answer to that tells."""
        with self._lock:
            if run.claim.token in self._sent or self._held.pop(run.claim.token, None) is None:
                return False
            self._out = [entry for entry in self._out if entry.run is not run]
            if not run.ended:
                run.ended = True
                self._active -= 1
        self.woken()
        return True

    def take(self) -> list[Entry]:
        """What is to be settled, the oldest first; the caller answers with `done` or `back`."""
        with self._lock:
            taken, self._out = self._out[:MAX_BATCH], self._out[MAX_BATCH:]
            self._sent.update([entry.run.claim.token for entry in taken])
            return taken

    def done(self, entries: Sequence[Entry]) -> None:
        """The broker has answered these settlements."""
        with self._lock:
            for entry in entries:
                self._held.pop(entry.run.claim.token, None)
                self._sent.discard(entry.run.claim.token)

    def back(self, entries: Sequence[Entry]) -> None:
        """It is not known whether the broker took these settlements; they come again, first."""
        with self._lock:
            self._sent.difference_update([entry.run.claim.token for entry in entries])
            self._out[:0] = [entry for entry in entries if entry.run.claim.token in self._held]

    def refs(self) -> list[ClaimRef]:
        """All that is to be renewed."""
        with self._lock:
            return [run.claim.ref for run in self._held.values()]

    def runs(self) -> list[Run]:
        """All of them, at this moment."""
        with self._lock:
            runs = list(self._held.values())
            self._shortest = min((run.claim.lease for run in runs), default=None)
            return runs

    @property
    def active(self) -> int:
        """How many runs have no settlement yet."""
        return self._active

    @property
    def waiting(self) -> int:
        """How many settlements wait to be taken."""
        return len(self._out)

    @property
    def unsettled(self) -> int:
        """How many settlements the broker has not answered yet, those that are on their way included."""
        return max(0, len(self._held) - self._active)

    @property
    def empty(self) -> bool:
        """Whether nothing is held any more."""
        return not self._held

    def shortest_lease(self) -> float | None:
        """The shortest lease of what was held since the last renewal; None: nothing is held now."""
        return self._shortest if self._held else None
