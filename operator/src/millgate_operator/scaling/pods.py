"""The pods of a pool, from what was observed of them. Pure."""

from __future__ import annotations

from millgate_operator.observed import PodView, WorkersView
from millgate_operator.scaling.values import Pod, Pool


def pool(view: WorkersView, now: float) -> Pool:
    """The pool as the scaler wants it; `now` in seconds since 1970."""
    return Pool(view.desired, tuple(_pod(pod, now) for pod in view.pods), view.rollout)


def _pod(pod: PodView, now: float) -> Pod:
    age = max(0.0, now - pod.created) if pod.created is not None else 0.0
    took = None
    if pod.ready_since is not None and pod.created is not None:
        took = max(0.0, pod.ready_since - pod.created)
    since = pod.unschedulable_since
    return Pod(
        name=pod.name,
        ready=pod.ready,
        started=pod.started,
        running=pod.running,
        terminating=pod.terminating,
        failing=bool(pod.trouble),
        age=age,
        unschedulable=None if since is None else max(0.0, now - since),
        marked=pod.marked,
        # a pod that became ready again after an hour did not take an hour to start
        start_took=took if took is not None and took < 600 else None,
    )
