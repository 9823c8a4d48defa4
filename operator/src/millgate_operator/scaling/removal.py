"""Which pods are emptied, and which may go: no pod that holds a task, or could take one, is ever among the latter.

A worker is fenced in the broker first, so that it cannot claim; it finishes what it holds, says that it is not
ready, and gets a low deletion cost. Only then the pool is made smaller, and the ReplicaSet's own order (not
assigned, pending, not ready, lower cost) picks exactly that pod. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from millgate.fleet import WorkerRow, WorkerState
from millgate.stats import Stats
from millgate_operator.scaling.values import FENCE_RENEW, Pod, Pool, ScalingPolicy

#: A fence that ends sooner than this (seconds) is renewed before anybody relies on it.
_SURE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The pods that are there, beside what the broker knows of the workers in them."""

    replicas: int
    pods: tuple[Pod, ...]  # without those that are leaving
    rows: Mapping[str, WorkerRow]

    def fenced(self) -> tuple[Pod, ...]:
        """Pods whose worker may not claim."""
        return tuple(pod for pod in self.pods if _is_fenced(self.rows.get(pod.name)))

    def working(self) -> tuple[Pod, ...]:
        """All others, those that have not begun included."""
        return tuple(pod for pod in self.pods if not _is_fenced(self.rows.get(pod.name)))


def fleet(pool: Pool, stats: Stats) -> Fleet:
    """The pool beside the registry."""
    staying = tuple(pod for pod in pool.pods if not pod.terminating)
    return Fleet(pool.replicas, staying, {row.name: row for row in stats.workers})


def _is_fenced(row: WorkerRow | None) -> bool:
    return row is not None and row.state is WorkerState.FENCED


def drained(fleet: Fleet) -> tuple[Pod, ...]:
    """Fenced pods whose worker holds nothing."""
    return tuple(pod for pod in fleet.fenced() if fleet.rows[pod.name].idle)


def removable(fleet: Fleet, excess: int) -> tuple[str, ...]:
    """Pods that may go now: drained, visibly not ready and marked; and up to `excess` that cannot hold work, since
    their container never ran, or has crashed and waits, unknown to the broker.

    Empty while a pod that may hold work is not ready either: the ReplicaSet could take that one instead.
    """
    if any(_may_be_mistaken(pod, fleet.rows.get(pod.name)) for pod in fleet.pods):
        return ()
    empty = [
        pod.name
        for pod in drained(fleet)
        if not pod.ready and pod.marked and _fence_holds(fleet.rows[pod.name])
    ]
    unborn = [pod.name for pod in fleet.working() if _cannot_work(pod, fleet)]
    return tuple(empty) + tuple(unborn[: max(0, excess)])


def _cannot_work(pod: Pod, fleet: Fleet) -> bool:
    dead = not pod.started or (pod.failing and not pod.running)
    return dead and not pod.ready and pod.name not in fleet.rows


def _may_be_mistaken(pod: Pod, row: WorkerRow | None) -> bool:
    if pod.ready or not pod.started or (pod.failing and not pod.running):
        return False
    return row is None or not row.idle or row.state is not WorkerState.FENCED


def _fence_holds(row: WorkerRow) -> bool:
    return row.fence_left is None or row.fence_left >= _SURE


def confirm(names: tuple[str, ...], pool: Pool, stats: Stats) -> tuple[str, ...]:
    """Those of `names` that may still go, judged by readings made after the decision."""
    now = fleet(pool, stats)
    allowed = set(removable(now, len(now.pods)))
    return tuple(name for name in names if name in allowed)


def victims(policy: ScalingPolicy, fleet: Fleet, excess: int, leaving: int) -> tuple[str, ...]:
    """Whom to fence next: at most `excess`, and no more of the pool at once than the policy says.

    Idle workers first, then those with the fewest and youngest runs: least is lost if one died after all.
    `leaving` of the fenced ones go now and do not count.
    """
    share = 100 if policy.drain else policy.in_percent
    room = max(1, ceil(fleet.replicas * share / 100)) - (len(fleet.fenced()) - leaving)
    registered = [pod for pod in fleet.working() if pod.name in fleet.rows]
    registered.sort(key=lambda pod: _cost(fleet.rows[pod.name], pod))
    return tuple(pod.name for pod in registered[: max(0, min(excess, room))])


def _cost(row: WorkerRow, pod: Pod) -> tuple[int, float, float, str]:
    return max(row.leased, row.beat.busy), row.beat.oldest or 0.0, pod.age, pod.name


def strays(fleet: Fleet) -> tuple[str, ...]:
    """Pods that may claim and still have the low deletion cost: their fences ended while nobody renewed them."""
    return tuple(pod.name for pod in fleet.working() if pod.marked and pod.name in fleet.rows)


def returning(fleet: Fleet, count: int) -> tuple[str, ...]:
    """Whom to unfence: at most `count`; those that still work, then those that are still ready."""
    pods = sorted(
        fleet.fenced(), key=lambda pod: (fleet.rows[pod.name].idle, not pod.ready, pod.name)
    )
    return tuple(pod.name for pod in pods[: max(0, count)])


def renewals(fleet: Fleet, staying: set[str]) -> tuple[str, ...]:
    """Fences that would end before the next look, of the pods that stay fenced."""
    return tuple(
        pod.name
        for pod in fleet.fenced()
        if pod.name in staying and (fleet.rows[pod.name].fence_left or 0.0) < FENCE_RENEW
    )
