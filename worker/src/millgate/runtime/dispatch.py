"""Which child gets which run, how many at once, and taking back what waits behind a long one. Used by the io thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Any, Final

from millgate.clock import Clock
from millgate.runtime import wire
from millgate.runtime.estimate import AHEAD, FRAME, MOST, Runtimes, ahead
from millgate.runtime.handle import Child, Phase
from millgate.runtime.ledger import Run
from millgate.runtime.table import BUFFERED

#: Seconds that a run may last before those buffered behind it are taken back.
PATIENCE: Final = 2 * AHEAD
#: Seconds that a claim may wait here for a child before it is given back to the broker.
_LONGEST_WAIT: Final = 5 * AHEAD
#: … when it is not busy but about to start.
_START_WAIT: Final = 40 * AHEAD
_SETTLE_TIME: Final = 0.001  # between a recall and the look at what it came too late for


class Dispatcher:
    """Runs that wait for a child, in order."""

    def __init__(self, slots: int, runtimes: Runtimes, clock: Clock) -> None:
        self._slots = slots
        self._runtimes = runtimes
        self._clock = clock
        self._waiting: deque[Run] = deque()
        self._last = 0  # the last number given out

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, runs: Iterable[Run]) -> None:
        """Claims that were just made."""
        self._waiting.extend(runs)

    def add_first(self, runs: list[Run]) -> None:
        """Runs that a child did not start; they keep their place."""
        for run in runs:
            run.seq = 0
        self._waiting.extendleft(reversed(runs))

    def remove(self, run: Run) -> None:
        """Forget a run that waits."""
        if run in self._waiting:
            self._waiting.remove(run)

    def waiting(self) -> list[Run]:
        """All that waits, the oldest first."""
        return list(self._waiting)

    def clear(self) -> list[Run]:
        """Take all that waits."""
        runs = list(self._waiting)
        self._waiting.clear()
        return runs

    # --- handing out -----------------------------------------------------------------------------

    def hand_out(self, children: Collection[Child]) -> list[Child]:
        """Give waiting runs to children: first to whoever can start one now, then as buffer for short ones.

        Answers the children that were given something.
        """
        if not self._waiting:
            return []
        given = self._pass(children)
        frames = {child: [jobs] for child, jobs in given}
        while self._waiting and any(len(jobs) >= FRAME for _, jobs in given):
            given = self._pass(children)  # a full frame may leave room for another one
            for child, jobs in given:
                frames.setdefault(child, []).append(jobs)
        for child, several in frames.items():
            child.send(b"".join([wire.run_frames(jobs) for jobs in several]))
        return list(frames)

    def _pass(self, children: Collection[Child]) -> list[tuple[Child, list[Any]]]:
        """At most one frame for each child that has room."""
        ready = [child for child in children if child.phase is Phase.READY and child.left != 0]
        ready.sort(key=lambda child: len(child.runs))
        frames: list[tuple[Child, list[Any]]] = [(child, []) for child in ready]
        self._fill_slots(frames)
        if self._waiting and frames:
            now = self._clock.monotonic()
            share = -(-len(self._waiting) // len(frames))
            for child, jobs in frames:
                if self.flows(child, now):
                    self._buffer(child, jobs, share)
        return [(child, jobs) for child, jobs in frames if jobs]

    def _fill_slots(self, frames: list[tuple[Child, list[Any]]]) -> None:
        for _ in range(self._slots):
            for child, jobs in frames:
                if not self._waiting:
                    return
                if len(child.runs) < self._slots and child.left != 0:
                    jobs.append(self._put(child))

    def _buffer(self, child: Child, jobs: list[Any], share: int) -> None:
        """Top up what a child has ahead; not one by one, so a child that still has a good part gets nothing."""
        more = len(child.runs) - self._slots
        task, room = None, 0
        for given in range(min(share, FRAME - len(jobs))):
            if not self._waiting or child.left == 0:
                return
            if self._waiting[0].task != task:
                task = self._waiting[0].task
                room = min(BUFFERED, self._ahead(self._waiting[0]))
            if more + given >= room or (not jobs and more > room // 2):
                return
            jobs.append(self._put(child))

    def _put(self, child: Child) -> list[Any]:
        run = self._waiting.popleft()
        run.seq = self._number_for(child)
        child.runs[run.seq] = run
        child.lease = min(child.lease or run.claim.lease, run.claim.lease)
        if child.left is not None:
            child.left -= 1
        return wire.job(run.seq, run.claim, run.gathered, run.terms.payload_max)

    def _number_for(self, child: Child) -> int:
        """The next number whose row in the child's page is free: a long run still has its own."""
        self._last += 1
        rows = child.table.rows
        if self._last - next(iter(child.runs), self._last) >= rows:
            while any((self._last - seq) % rows == 0 for seq in child.runs):
                self._last += 1
        return self._last

    def _ahead(self, run: Run) -> int:
        return ahead(self._runtimes.expect(run.task), self._slots, MOST)

    def flows(self, child: Child, now: float) -> bool:
        """Whether what is buffered in a child will be started soon, as far as can be seen."""
        if not child.runs:
            return True
        long = sum(now - child.table.started_at(seq) >= AHEAD for seq, _ in child.started())
        return long < self._slots

    def seconds_for(self, count: int) -> float | None:
        """How long a child may take for so many runs; None: nobody knows."""
        mean = self._runtimes.mean
        return None if mean is None else count * mean / self._slots

    def target(self, children: Collection[Child], now: float) -> int:
        """How many runs this worker may hold now: the slots that work, and a buffer where tasks are short."""
        ready = [child for child in children if child.phase is Phase.READY and child.left != 0]
        buffer = ahead(self._runtimes.mean, self._slots, MOST)
        flowing = sum(self.flows(child, now) for child in ready) if buffer else 0
        return len(ready) * self._slots + flowing * buffer

    # --- taking back -----------------------------------------------------------------------------

    def take_back(self, child: Child) -> list[Run]:
        """The runs that a child has not started, taken from it for good. What it starts meanwhile stays with it."""
        buffered = child.buffered()
        if not buffered:
            return []
        first, last = buffered[0][0], buffered[-1][0]
        child.table.recall(first, last)
        self._clock.sleep(_SETTLE_TIME)
        mark = child.table.started
        taken = []
        for seq, run in buffered:
            if seq > mark and child.runs.pop(seq, None) is not None:
                taken.append(run)
                child.left = None if child.left is None else child.left + 1
        return taken

    def left(self, child: Child, seq: int) -> None:
        """A child says that it left a number alone, because it was taken back."""
        run = child.runs.pop(seq, None)
        if run is not None:  # the recall came between its two looks
            child.left = None if child.left is None else child.left + 1
            self.add_first([run])

    def relieve(self, children: Collection[Child], now: float) -> None:
        """Take back what waits in a child behind runs that turned out long."""
        for child in children:
            if len(child.runs) > self._slots and child.phase is Phase.READY:
                oldest = child.oldest(now)
                if oldest is not None and oldest > PATIENCE and not self.flows(child, now):
                    self.add_first(self.take_back(child))

    def late(self, children: Collection[Child], now: float) -> list[Run]:
        """Take out what waited too long for a child: another worker may have one."""
        starting = any(child.phase is Phase.STARTING for child in children)
        bound = _START_WAIT if starting else _LONGEST_WAIT
        late = [run for run in self._waiting if now - run.arrived > bound]
        for run in late:
            self._waiting.remove(run)
        return late
