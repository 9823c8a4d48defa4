"""What happens to a queue's tasks when its TaskQueue is deleted under deletionPolicy Delete. Bounded: never for ever.

A finalizer holds the object only while this works, and at most LIMIT seconds: a broker that is gone for good, or an
operator that comes back late, must not keep a namespace from going.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from millgate.brokers.base import Broker
from millgate.errors import MillgateError
from millgate_operator import observe, rivals
from millgate_operator.cluster import ClusterError
from millgate_operator.context import Context
from millgate_operator.errors import RetryLater
from millgate_operator.links import Key
from millgate_operator.names import FINALIZER
from millgate_operator.observed import seconds
from millgate_operator.spec import TaskQueue, parse_task_queue, queue_policy

#: Seconds from the deletion until the object is let go, whatever is left of its tasks.
LIMIT: Final = 600.0
_AGAIN: Final = 2.0


def hold(context: Context, manifest: Mapping[str, Any], queue: TaskQueue) -> None:
    """Put our finalizer on the object, or take it off, as its deletionPolicy says."""
    wanted = queue.spec.deletion_policy == "Delete"
    if wanted != held(manifest):
        _set(context, manifest, wanted)


def held(manifest: Mapping[str, Any]) -> bool:
    """Whether our finalizer is on the object."""
    return FINALIZER in (manifest["metadata"].get("finalizers") or ())


def clean_up(context: Context, key: Key, manifest: Mapping[str, Any]) -> float | None:
    """Remove a deleted queue's tasks, then let the object go. Answers when to look again; None: it is gone."""
    trouble = "tasks are still running"
    try:
        done = _done(context, key, parse_task_queue(manifest))
    except (MillgateError, ClusterError) as error:  # whatever it is, it holds nothing for ever
        done, trouble = False, str(error)
    if done:
        _set(context, manifest, False)
        return None
    deleted = seconds(manifest["metadata"]["deletionTimestamp"]) or 0.0
    if context.clock.now() - deleted < LIMIT:
        return _AGAIN
    words = f"let go after {LIMIT:.0f}s, tasks may be left in the broker: {trouble}"
    context.recorder.post(manifest, "FinalizerReleased", words, warning=True)
    _set(context, manifest, False)
    return None


def _done(context: Context, key: Key, queue: TaskQueue) -> bool:
    """Whether nothing is left to remove, or nothing is this queue's to remove."""
    if queue.spec.deletion_policy != "Delete":  # somebody thought better of it
        return True
    connection = observe.connection(context.cluster, queue, context.settings)
    broker = context.links.open(key, queue.broker_queue, connection)
    if rivals.surely(context, key, queue, broker.server()) is not None:
        return True
    return _emptied(broker, queue)


def _emptied(broker: Broker, queue: TaskQueue) -> bool:
    """Nothing starts any more, nothing waits, nothing is kept; whether nothing runs either."""
    broker.configure((), replace(queue_policy(queue), suspended=True))
    stats = broker.stats()
    for topic in stats.topics:
        broker.purge(topic)
    broker.purge_dead()
    return all(topic.leased == 0 for topic in stats.topics.values())


def _set(context: Context, manifest: Mapping[str, Any], present: bool) -> None:
    meta = manifest["metadata"]
    others = [one for one in meta.get("finalizers") or () if one != FINALIZER]
    try:
        context.cluster.set_finalizers(manifest, [*others, FINALIZER] if present else others)
    except ClusterError as error:
        if error.status != 404:
            raise RetryLater("Conflict", str(error)) from error
