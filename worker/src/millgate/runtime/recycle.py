"""When a child is kept, replaced or killed, and when to look again: pure arithmetic over samples and ceilings."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from millgate.frozen import dataclass
from millgate.limits import format_bytes
from millgate.outcome import Failure

#: Bytes a second at which a tree may grow between two looks: memset on one core reaches this.
GROWTH: Final = 4_000_000_000
SOONEST: Final = 0.005
LATEST: Final = 0.25
#: Share of the container's limit at which the biggest tree is stopped, before the kernel chooses.
BUDGET_SHARE: Final = 0.9
#: What a replacement may need beyond the measured baseline.
SPARE_MARGIN: Final = 1.1
#: Ended processes that tasks left to their child; it cannot reap them without stealing exit codes from tasks.
MAX_DEFUNCT: Final = 8
#: Times its soft ceiling that a tree may have while its replacement warms up.
PATIENT: Final = 1.25
#: What the system says to a process that has as many files and connections open as it may.
_NO_FILES: Final = os.strerror(errno.EMFILE)
_THREAD_STACK: Final = 8 * 2**20


class Because(StrEnum):
    """Why a child is replaced or ended; stable words for logs, metrics and status."""

    MAX_RSS = "MaxRSS"
    HARD_MAX_RSS = "HardMaxRSS"
    POD_BUDGET = "PodBudget"
    DATA_LIMIT = "DataLimit"
    MAX_TASKS = "MaxTasks"
    MAX_LIFETIME = "MaxLifetime"
    DEFUNCT = "Defunct"
    DESCRIPTORS = "Descriptors"
    HARD_TIMEOUT = "HardTimeout"
    CANCELLED = "Cancelled"
    LEASE_LOST = "LeaseLost"
    EXITED = "Exited"
    OOM_KILLED = "OOMKilled"
    BROKEN = "Broken"
    DRAINED = "Drained"
    NOT_READY = "NotReady"


#: Reasons to replace a child between two tasks: none of them ends a task.
REPLACING: Final = frozenset(
    {
        Because.MAX_RSS,
        Because.MAX_TASKS,
        Because.MAX_LIFETIME,
        Because.DEFUNCT,
        Because.DESCRIPTORS,
    }
)
#: … that come of what tasks have left behind: somebody may want to know.
NEGLECTED: Final = frozenset({Because.DEFUNCT, Because.DESCRIPTORS})


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Bytes that a tree may have, and what the container may have. None: no such bound."""

    soft: int | None = None
    hard: int | None = None
    pod: int | None = None

    @property
    def budget(self) -> int | None:
        """Bytes of the whole pod at which something is stopped."""
        return int(self.pod * BUDGET_SHARE) if self.pod is not None else None

    def check_baseline(self, baseline: int) -> str | None:
        """What is wrong with these ceilings for children that begin with `baseline` bytes; None: nothing."""
        for name, ceiling in (("--max-rss", self.soft), ("--hard-max-rss", self.hard)):
            if ceiling is not None and baseline >= ceiling:
                return (
                    f"{name}: a child of this app has {format_bytes(baseline)} before its first task, the ceiling is"
                    f" {format_bytes(ceiling)}; raise it to at least {format_bytes(int(baseline * 1.5))}"
                )
        return None

    def check_start(self, because: Because) -> str | None:
        """What is wrong with these ceilings when a child was ended so before it was ready; None: nothing."""
        if because is Because.HARD_MAX_RSS and self.hard is not None:
            return (
                f"--hard-max-rss: a child of this app has more before its first task than the ceiling of"
                f" {format_bytes(self.hard)}; raise it, or leave it out to see in the log what a child begins with"
            )
        if because is Because.OOM_KILLED:
            return (
                "--memory: the kernel ended a child of this app for memory before its first task; raise the pod's"
                " limit or lower --children"
            )
        return None

    def check_pod(self, baseline: int, supervisor: int, children: int) -> str | None:
        """What is wrong with the container's size for so many children; None: nothing."""
        need = supervisor + children * baseline
        if self.budget is None or need <= self.budget:
            return None
        return (
            f"--memory: the supervisor and {children} idle children of this app have {format_bytes(need)},"
            f" 90% of the pod's limit is {format_bytes(self.budget)}; raise the limit or lower --children"
        )


@dataclass(frozen=True, slots=True)
class Age:
    """What a child has behind it."""

    tasks: int
    seconds: float
    defunct: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a child may have behind it. 0: no bound."""

    tasks: int = 0
    seconds: float = 0.0


def over_defunct(count: int) -> Because | None:
    """Whether a child keeps too many ended processes that its tasks left to it."""
    return Because.DEFUNCT if count > MAX_DEFUNCT else None


def over_files(failure: Failure) -> Because | None:
    """Whether a task failed for want of descriptors: then so will the next ones in its child."""
    said = (failure.message, failure.traceback)
    return Because.DESCRIPTORS if any(_NO_FILES in text for text in said) else None


def over_age(age: Age, bounds: Bounds) -> Because | None:
    """Whether a child has done enough; None: it goes on."""
    if bounds.tasks and age.tasks >= bounds.tasks:
        return Because.MAX_TASKS
    if bounds.seconds and age.seconds >= bounds.seconds:
        return Because.MAX_LIFETIME
    if over_defunct(age.defunct):
        return Because.DEFUNCT
    return None


def over_ceiling(size: int, ceilings: Ceilings) -> Because | None:
    """Which ceiling a tree of `size` bytes is over; None: none."""
    if ceilings.hard is not None and size > ceilings.hard:
        return Because.HARD_MAX_RSS
    if ceilings.soft is not None and size > ceilings.soft:
        return Because.MAX_RSS
    return None


def far_over(size: int, ceilings: Ceilings) -> bool:
    """Whether a tree over its soft ceiling has grown so far on that its replacement is not waited for."""
    return ceilings.soft is not None and size > ceilings.soft * PATIENT


def next_look(size: int, ceilings: Ceilings) -> float:
    """Seconds until a tree of `size` bytes is worth a look again: its headroom at the fastest growth."""
    bound = ceilings.hard if ceilings.hard is not None else ceilings.soft
    if bound is None:
        return LATEST
    return min(LATEST, max(SOONEST, (bound - size) / GROWTH))


def next_pod_look(usage: int, ceilings: Ceilings) -> float:
    """Seconds until the pod's usage is worth a look again."""
    if ceilings.budget is None:
        return LATEST
    return min(LATEST, max(SOONEST, (ceilings.budget - usage) / GROWTH))


def biggest(sizes: Mapping[int, int]) -> int | None:
    """The key of the largest size: the tree to stop when the pod is full; None: there is none."""
    return max(sizes, key=lambda key: sizes[key]) if sizes else None


def spare_fits(usage: int | None, baseline: int, ceilings: Ceilings) -> bool:
    """Whether a replacement may start while the old child still works."""
    if ceilings.budget is None or usage is None:
        return True
    return usage + int(baseline * SPARE_MARGIN) <= ceilings.budget


def data_limit(hard: int, data: int, anonymous: int, slots: int) -> int:
    """RLIMIT_DATA for a child: the ceiling, what it had reserved beyond its use when ready, and its threads' stacks."""
    return hard + max(0, data - anonymous) + _THREAD_STACK * slots


def backoff(failures: int) -> float:
    """Seconds before a child is started again after `failures` that died before they were ready."""
    return 0.0 if failures <= 0 else min(30.0, 0.25 * 2.0 ** (min(failures, 10) - 1))
