"""Stats, workers and pods for tests of the autoscaler, and a pool that behaves as a ReplicaSet does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.stats import Stats, TopicStats
from millgate_operator.scaling import Pod, Pool


def a_topic_reading(**fields: Any) -> TopicStats:
    """A topic with nothing in it."""
    base = TopicStats(
        waiting=0,
        claimable=0,
        delayed=0,
        leased=0,
        dead=0,
        enqueued=0,
        started=0,
        completed=0,
        failed=0,
    )
    return replace(base, **fields)


def a_row(name: str, busy: int = 0, **fields: Any) -> WorkerRow:
    """A worker's row; `busy` tasks run in it."""
    base = WorkerRow(
        name=name,
        incarnation=f"{name}-1",
        state=WorkerState.ACTIVE,
        seen=0.0,
        leased=busy,
        info=WorkerInfo(slots=1),
        beat=Beat(busy=busy),
    )
    return replace(base, **fields)


def fenced(name: str, busy: int = 0, left: float = 170.0) -> WorkerRow:
    """A fenced worker's row."""
    return a_row(name, busy, state=WorkerState.FENCED, fence_left=left)


def readings(
    topics: dict[str, TopicStats] | None = None, *rows: WorkerRow, next_due: float | None = None
) -> Stats:
    """What the broker reports."""
    return Stats(topics=topics or {}, workers=rows, next_due=next_due)


def some_work(claimable: int = 0, leased: int = 0, **fields: Any) -> dict[str, TopicStats]:
    """One topic with work in it."""
    return {
        "default": a_topic_reading(waiting=claimable, claimable=claimable, leased=leased, **fields)
    }


def a_pod(name: str, **fields: Any) -> Pod:
    """A pod that is ready."""
    return replace(Pod(name=name, ready=True, started=True, age=600.0), **fields)


def a_pending_pod(name: str, **fields: Any) -> Pod:
    """A pod whose container has never run."""
    return replace(Pod(name=name, age=5.0), **fields)


def a_pool(*pods: Pod, replicas: int | None = None, rollout: bool = False) -> Pool:
    """A pool of these pods, as many as are asked for."""
    return Pool(len(pods) if replicas is None else replicas, pods, rollout)


def replica_set_victims(pods: list[Pod], count: int) -> list[Pod]:
    """Whom a ReplicaSet removes: pending first, then not ready, then the lower deletion cost, then the youngest."""
    order = sorted(pods, key=lambda pod: (pod.started, pod.ready, not pod.marked, pod.age))
    return order[: max(0, count)]
