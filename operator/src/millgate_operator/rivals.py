"""Two TaskQueues for one set of tasks: the older one has it, the other neither writes, nor scales, nor removes any.

What counts is where the tasks really are, not what a queue is called: PostgreSQL writes '.' and '-' as '_' in the
name of a schema, and a URL can name a schema for whoever uses it.
"""

from __future__ import annotations

from millgate.brokers.base import Server
from millgate.errors import MillgateError
from millgate_operator import observe
from millgate_operator.cluster import TASK_QUEUE
from millgate_operator.context import Context
from millgate_operator.errors import RetryLater
from millgate_operator.links import Key, Place
from millgate_operator.roster import Entry
from millgate_operator.spec import TaskQueue, parse_task_queue

#: The reason of a queue whose place is taken.
CONFLICT = "PrefixConflict"


def holder(context: Context, key: Key, queue: TaskQueue, server: Server) -> Key | None:
    """The older TaskQueue that has these tasks; None: this one has them.

    Who has not been looked at since the operator began is looked at now, as far as that can be done.
    """
    place = _place(server, queue.broker_queue)
    if not context.links.holds(key, place):
        _meet(context, key, queue, place)
    return context.links.holder(key, queue.meta.created, place)


def surely(context: Context, key: Key, queue: TaskQueue, server: Server) -> Key | None:
    """As `holder`, for what cannot be undone. Raises RetryLater when somebody could not be looked at."""
    place = _place(server, queue.broker_queue)
    unknown = _meet(context, key, queue, place)
    if unknown:
        raise RetryLater("RivalUnknown", f"it is not known whether {unknown[0]} has the same tasks")
    return context.links.holder(key, queue.meta.created, place)


def _place(server: Server, queue: str) -> Place:
    inside = server.detail.get("schema") or server.detail.get("prefix") or queue
    return server.endpoint, str(inside)


def _meet(context: Context, key: Key, queue: TaskQueue, place: Place) -> list[str]:
    """Enter everybody who could be in the same place; answers what is not known of whom."""
    if queue.spec.broker.type == "Local":  # a server of its own
        return []
    unknown = []
    for other in context.roster.others(key):
        if not _could_meet(other, queue, place) or context.links.is_placed(other.key):
            continue
        try:
            _enter(context, other.key)
        except MillgateError as error:
            unknown.append(f"TaskQueue {'/'.join(other.key)} ({error})")
    return unknown


def _could_meet(other: Entry, queue: TaskQueue, place: Place) -> bool:
    if other.kind != queue.spec.broker.type:
        return False
    if other.kind != "Postgres":
        return other.name == queue.broker_queue
    # here, so that the driver is loaded where there is such a queue
    from millgate.brokers.postgres.url import schema_of

    if place[1] != schema_of(queue.broker_queue):
        return True  # the URL names the schema, and so may the other's
    return schema_of(other.name) == place[1]


def _enter(context: Context, key: Key) -> None:
    manifest = context.cluster.get(TASK_QUEUE, *key)
    if manifest is None:
        return
    other = parse_task_queue(manifest)
    connection = observe.connection(context.cluster, other, context.settings)
    server = context.links.ask(other.broker_queue, connection)
    context.links.holder(key, other.meta.created, _place(server, other.broker_queue))
