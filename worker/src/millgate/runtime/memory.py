"""Watches the memory of all trees and of the pod from a thread of its own, and stops what grows over a ceiling.

The io thread adopts and says farewell to children; the watch alone opens /proc. A tree over its hard ceiling is
killed here and now, without waiting for any other thread.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from millgate.clock import Clock
from millgate.runtime.births import Births
from millgate.runtime.cgroup import Cgroup
from millgate.runtime.handle import Child, Phase
from millgate.runtime.processes import prefer_for_oom
from millgate.runtime.recycle import (
    LATEST,
    SOONEST,
    Because,
    Ceilings,
    biggest,
    data_limit,
    far_over,
    next_look,
    next_pod_look,
    over_ceiling,
    over_defunct,
    spare_fits,
)
from millgate.runtime.rss import Tree, data_of, pss_of, rss_of

_WALK: Final = 0.5  # seconds between two walks of a tree, while processes are born
_SURE: Final = 2.0  # … and while none is: a walk may have missed who changed parents beside it
_WORRY: Final = 0.8  # share of the budget from which the page cache is told apart
_OOM_ABOVE: Final = 500
_KILLED_FOR: Final = frozenset({Because.HARD_MAX_RSS, Because.POD_BUDGET})
#: Told once; an idle child is replaced for them as well.
_REPLACED_FOR: Final = frozenset({Because.MAX_RSS, Because.DEFUNCT})
#: Share of the time to a look after which it is taken when another is: a wake-up costs as much as several looks.
_EARLY: Final = 0.5
#: Seconds that a killed tree has to disappear before the pod's next victim is chosen.
_PATIENCE: Final = 0.2


class Watched:
    """One tree and when to look at it again."""

    __slots__ = ("births", "child", "due", "looked", "replaced", "suits", "tree", "walked")

    def __init__(self, child: Child) -> None:
        self.child = child
        self.tree = Tree(child.pid)
        self.due = 0.0
        self.suits = 0.0  # from when a look may be taken that is being taken at others anyway
        self.walked = self.looked = float("-inf")
        self.births: int | None = None  # the latest before the last walk
        self.replaced = False

    def may_have_grown(self, now: float, latest: int | None) -> bool:
        """Whether the tree is to be walked: `latest` is the number of who was born last, None when nobody can tell."""
        since = now - self.walked
        if latest is not None and latest == self.births:
            return since >= _SURE
        return self.tree.grew() or since >= _WALK

    def again(self, now: float, seconds: float) -> float:
        """Have the next look taken in `seconds` at the latest; answers when."""
        self.suits, self.due = now + _EARLY * seconds, now + seconds
        return self.due


class Memory:
    """`replace(key, because)` is posted to the io thread when a tree is over its soft ceiling."""

    def __init__(self, ceilings: Ceilings, cgroup: Cgroup | None, slots: int, clock: Clock) -> None:
        """`cgroup`: whose usage counts against the pod's limit; None: the sizes of our own processes do."""
        self.replace: Callable[[int, Because], None] = lambda _key, _because: None
        self.hasten: Callable[[int], None] = lambda _key: None
        self.helpers: Callable[[], Iterable[int]] = lambda: ()  # other processes that count
        self.ceilings = ceilings
        self._lowest = min(filter(None, (ceilings.soft, ceilings.hard)), default=None)
        self.cpu = 0.0  # seconds spent here
        self.largest_overshoot = 0
        self._cgroup = cgroup
        self._slots = slots
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[int, Watched] = {}
        self._baseline = 0
        self._usage: int | None = None
        self._oom = cgroup.oom_kills() if cgroup is not None else None
        self._pod_due = self._pod_suits = 0.0
        self._victim_until = 0.0
        self._stop = threading.Event()
        self._bell = threading.Event()

    # --- the io thread ---------------------------------------------------------------------------

    def adopt(self, child: Child) -> None:
        """A child was born: it goes first when the kernel has to choose."""
        prefer_for_oom(child.pid, _OOM_ABOVE)
        with self._lock:
            self._watched[child.key] = Watched(child)
        self._bell.set()  # it may be at work before the watch would come round

    def ready(self, child: Child, wanted: int) -> str | None:
        """Measure a child before its first task and limit it; answers what is wrong with the ceilings."""
        child.baseline = rss_of(child.pid) or 0
        hard = self.ceilings.hard
        measured = data_of(child.pid)
        if hard is not None and measured is not None:
            limit = data_limit(hard, *measured, self._slots)
            with suppress(OSError, ValueError):
                resource.prlimit(child.pid, resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
                child.limited = True
        # what counts is measured here as the watch measures it later
        share = pss_of(child.pid) or child.baseline
        own = sum(_share_of(pid) for pid in self._ours())
        problem = self.ceilings.check_baseline(child.baseline) or self.ceilings.check_pod(
            share, own, wanted
        )
        if problem is None:  # from now on it is known what a child has before its tasks
            self._baseline = child.baseline
        return problem

    def room_for_spare(self, coming: int = 0) -> bool:
        """Whether one more child fits into the pod now, beside so many that have only begun to grow."""
        need = self._baseline * (coming + 1)
        usage = self._usage
        if self._cgroup is not None and not spare_fits(usage, need, self.ceilings):
            # what looks full may be page cache, which the watch tells apart only near the limit
            usage = self._cgroup.working_set(0)
        return spare_fits(usage, need, self.ceilings)

    def defunct(self, child: Child) -> int:
        """Ended processes that a child has not reaped, at the last walk."""
        watched = self._watched.get(child.key)
        return watched.tree.defunct if watched is not None else 0

    def farewell(self, child: Child) -> bool:
        """A child is gone; answers whether the kernel has killed for memory since the last one went."""
        with self._lock:
            watched = self._watched.pop(child.key, None)
            if watched is not None:
                watched.tree.close()
        if self._cgroup is None:
            return False
        before, self._oom = self._oom, self._cgroup.oom_kills()
        return before is not None and self._oom is not None and self._oom > before

    def stop(self) -> None:
        """End the watch."""
        self._stop.set()
        self._bell.set()

    # --- the watch -------------------------------------------------------------------------------

    def run(self) -> None:
        """Look, sleep as long as nothing can go wrong, look again."""
        births = Births()
        while not self._stop.is_set():
            self._bell.clear()
            now, latest = self._clock.monotonic(), births.latest()
            with self._lock:
                due = min(
                    (self._look(watched, now, latest) for watched in self._watched.values()),
                    default=now + LATEST,
                )
            if now >= self._pod_suits:
                self._look_at_pod(now)
                self._pod_suits = now + _EARLY * (self._pod_due - now)
            self.cpu = time.thread_time()
            wake = min(due, self._pod_due)
            self._bell.wait(max(0.001, wake - self._clock.monotonic()))
        births.close()

    def _look(self, watched: Watched, now: float, latest: int | None) -> float:
        if now < watched.suits:
            return watched.due
        child, tree = watched.child, watched.tree
        if watched.may_have_grown(now, latest):
            tree.refresh()
            watched.walked, watched.births = now, latest
        watched.looked = now
        size = tree.size(above=self._lowest)
        if child.because in _KILLED_FOR:  # it is dying; its size at the kill is what is to be told
            return watched.again(now, SOONEST)
        child.size = size
        because = over_ceiling(size, self.ceilings) or over_defunct(tree.defunct)
        if because is Because.HARD_MAX_RSS and child.phase is not Phase.DEAD:
            self.largest_overshoot = max(self.largest_overshoot, size - (self.ceilings.hard or 0))
            child.kill(because)
        elif because in _REPLACED_FOR and not watched.replaced and child.phase is Phase.READY:
            watched.replaced = True
            self.replace(child.key, because)
        elif (
            because is Because.MAX_RSS
            and child.phase is Phase.READY
            and far_over(size, self.ceilings)
        ):
            self.hasten(child.key)
        return watched.again(now, next_look(size, self.ceilings))

    def _look_at_pod(self, now: float) -> None:
        budget = self.ceilings.budget
        if budget is None:
            self._pod_due = now + LATEST
            return
        usage = self._usage = self._measure(budget, now)
        if usage is None:
            self._pod_due = now + LATEST
            return
        self._pod_due = now + next_pod_look(usage, self.ceilings)
        if usage > budget and now >= self._victim_until:
            with self._lock:
                victim, size = self._biggest()
                if victim is not None:
                    self._watched[victim].child.size = size
                    self._watched[victim].child.kill(Because.POD_BUDGET)
                    self._victim_until = now + _PATIENCE

    def _biggest(self) -> tuple[int | None, int]:
        """The largest tree and its bytes. None has more than its RSS, so that few are looked at closely."""
        most = {
            key: watched.tree.rss()
            for key, watched in self._watched.items()
            # before the first child is ready it is not known whether the pod is too small for any
            if self._baseline or watched.child.phase is not Phase.STARTING
        }
        found: tuple[int | None, int] = None, 0
        while most:
            key = biggest(most)
            assert key is not None
            if most.pop(key) <= found[1]:
                break
            watched = self._watched[key]
            size = watched.tree.share() if watched.child.forked else watched.tree.size(above=0)
            if size > found[1]:
                found = key, size
        return found

    def _measure(self, budget: int, now: float) -> int | None:
        if self._cgroup is not None:
            return self._cgroup.working_set(int(budget * _WORRY))
        ours = self._ours()
        with self._lock:
            watched = list(self._watched.values())
            total = sum(rss_of(pid) or 0 for pid in ours)
            # most have just been looked at, which is what costs
            total += sum(w.tree.resident if w.looked == now else w.tree.rss() for w in watched)
            if total <= budget:
                return total
            # pages that several have were counted for each
            return sum(_share_of(pid) for pid in ours) + sum(w.tree.share() for w in watched)

    def _ours(self) -> list[int]:
        """Processes beside the trees: supervisor, guardian, and the template if there is one."""
        return [os.getpid(), os.getppid(), *self.helpers()]

    # --- looking ---------------------------------------------------------------------------------

    @property
    def usage(self) -> int | None:
        """Bytes that count against the pod's limit, at the last look."""
        return self._usage

    def total(self) -> int | None:
        """Bytes of supervisor and trees together, for the registry; None: not measured yet."""
        own = rss_of(os.getpid())
        sizes = [watched.child.size for watched in list(self._watched.values())]
        if own is None or any(size is None for size in sizes):
            return None
        return own + sum(size for size in sizes if size is not None)


def _share_of(pid: int) -> int:
    return pss_of(pid) or rss_of(pid) or 0
