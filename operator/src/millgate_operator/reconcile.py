"""Level-triggered: looks at one TaskQueue with its Topics, makes cluster and broker as they say, reports in status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from millgate.errors import BrokerUnavailable, MillgateError
from millgate.queues import TopicPolicy
from millgate_operator import names, observe, rivals
from millgate_operator.apply import new_key
from millgate_operator.cleanup import clean_up, held, hold
from millgate_operator.cluster import TASK_QUEUE, ClusterError
from millgate_operator.context import Context
from millgate_operator.desired import broker_objects, key_secret, worker_objects
from millgate_operator.errors import Blocked, InvalidSpec, RetryLater
from millgate_operator.links import Key
from millgate_operator.observed import BrokerView, Connection, Seen, Trouble
from millgate_operator.report import report_gone, report_invalid, report_paused, report_seen
from millgate_operator.rivals import CONFLICT
from millgate_operator.scaling import ScalingPolicy, scaling_policy
from millgate_operator.spec import (
    Resolved,
    TaskQueue,
    Topic,
    parse_task_queue,
    parse_topic,
    resolve,
)

T = TypeVar("T")
#: Seconds until something that is wrong is looked at again: soon at first, then ever more rarely.
_SOONEST: Final = 2.0
_LATEST: Final = 60.0
#: … after this share of the time for which it has been wrong.
_SHARE: Final = 0.25


def reconcile(context: Context, key: Key) -> float | None:
    """One TaskQueue and the Topics that refer to it. Answers after how many seconds it wants another look.

    Raises RetryLater and ClusterError when the cluster does not answer.
    """
    namespace, name = key
    manifest = context.cluster.get(TASK_QUEUE, namespace, name)
    topics = observe.topics_of(context.cluster, namespace, name)
    if manifest is not None and "deletionTimestamp" in manifest["metadata"] and held(manifest):
        context.pools.drop(key)
        return clean_up(context, key, manifest)
    if manifest is None or "deletionTimestamp" in manifest["metadata"]:
        _forget(context, key)
        report_gone(context, topics)
        return None
    if _annotation(manifest, names.ANNOTATION_RECONCILE) == names.PAUSED:
        context.pools.drop(key)
        report_paused(context, manifest)
        return None
    try:
        queue = parse_task_queue(manifest)
    except InvalidSpec as error:
        context.pools.drop(key)
        report_invalid(context, manifest, topics, str(error))
        return None
    hold(context, manifest, queue)
    read, unread = _read_topics(topics)
    began = context.clock.monotonic()
    seen = _see(context, key, queue, read, _unread_names(topics, unread))
    took = context.clock.monotonic() - began
    later = report_seen(context, manifest, topics, read, unread, seen)
    return _again(context, key, seen, later, took)


def _forget(context: Context, key: Key) -> None:
    context.pools.drop(key)
    context.links.close(key)
    context.applier.forget(*key)
    context.metrics.forget(namespace=key[0], queue=key[1])
    context.blocked.pop(key, None)


def _annotation(manifest: dict[str, Any], name: str) -> str | None:
    value: str | None = (manifest["metadata"].get("annotations") or {}).get(name)
    return value


def _read_topics(manifests: Sequence[dict[str, Any]]) -> tuple[list[Topic], dict[str, str]]:
    read, unread = [], {}
    for manifest in manifests:
        try:
            read.append(parse_topic(manifest))
        except InvalidSpec as error:
            unread[manifest["metadata"]["name"]] = str(error)
    return read, unread


def _unread_names(manifests: Sequence[dict[str, Any]], unread: Mapping[str, str]) -> frozenset[str]:
    """The topic names of Topics that cannot be read, where at least the name can be."""
    return frozenset(
        str((one.get("spec") or {}).get("topicName") or one["metadata"]["name"])
        for one in manifests
        if one["metadata"]["name"] in unread and "deletionTimestamp" not in one["metadata"]
    )


def _see(
    context: Context, key: Key, queue: TaskQueue, topics: list[Topic], unread: frozenset[str]
) -> Seen:
    """Do everything there is to do; what went wrong is part of the answer, and stops only what needs it."""
    seen = Seen(queue, context.clock.now())
    try:
        resolved = resolve(queue, (topic for topic in topics if not topic.meta.deleting))
        resolved = replace(resolved, refused_names=resolved.refused_names | unread)
    except InvalidSpec as error:
        return replace(seen, spec=Trouble("InvalidSpec", str(error)))
    made, objects = _attempt(lambda: _apply_broker(context, queue))
    seen = _meet_broker(context, key, replace(seen, resolved=resolved))
    trouble = seen.broker.trouble
    if trouble is None or trouble.reason != CONFLICT:  # else they would take another queue's tasks
        _, unmade = _attempt(lambda: _apply_workers(context, queue, resolved, made))
        objects = objects or unmade
    found, dark = _attempt(lambda: observe.workers(context.cluster, *key))
    state = context.pools.get(key)
    return replace(
        seen,
        objects=objects,
        workers=found[0] if found else None,
        pool=dark,
        cold_start=state.memory.cold_start if state else None,
        decision=state.decision if state else None,
    )


def _meet_broker(context: Context, key: Key, seen: Seen) -> Seen:
    """Let the broker hold what the manifests say, and the autoscaler look at the queue."""
    queue, resolved = seen.queue, seen.resolved
    assert resolved is not None
    connection, trouble = _attempt(
        lambda: observe.connection(context.cluster, queue, context.settings)
    )
    if connection is None:
        if trouble is not None and not trouble.passing:
            context.links.close(key)
            context.pools.drop(key)
        return replace(seen, connection=trouble)
    view, trouble = _attempt(lambda: _program(context, key, queue, resolved, connection))
    if trouble is not None and trouble.passing:
        trouble = _explained(context, queue, connection, trouble)
    if trouble is not None and trouble.reason == CONFLICT:
        context.pools.drop(key)
    else:
        _enter(context, key, queue, resolved, connection)
    return replace(
        seen, secret_version=connection.version, broker=view or BrokerView(trouble=trouble)
    )


def _explained(
    context: Context, queue: TaskQueue, connection: Connection, trouble: Trouble
) -> Trouble:
    words, _ = _attempt(
        lambda: observe.out_of_reach(context.cluster, queue, connection, context.settings)
    )
    return replace(trouble, message=f"{trouble.message}; {words}") if words else trouble


def _attempt(call: Callable[[], T]) -> tuple[T | None, Trouble | None]:
    try:
        return call(), None
    except ClusterError as error:
        return None, Trouble(f"Cluster{error.reason}", str(error), passing=error.passing)
    except (RetryLater, BrokerUnavailable) as error:
        return None, Trouble(error.reason, str(error), passing=True)
    except MillgateError as error:
        return None, Trouble(error.reason, str(error))


def _apply_broker(context: Context, queue: TaskQueue) -> list[dict[str, Any]]:
    """What serves the queue, where the operator runs that; answers the objects."""
    if queue.spec.broker.type == "Local":
        _ensure_key(context, queue)
    version = ""
    if queue.spec.broker.type == "RabbitMQ":
        version = observe.secret_version(context.cluster, queue, context.settings)
    wishes = broker_objects(queue, context.settings, version)
    _apply_all(context, queue, wishes, None)
    return wishes


def _apply_workers(
    context: Context, queue: TaskQueue, resolved: Resolved, made: list[dict[str, Any]] | None
) -> None:
    """The pool. If all for the broker was `made`, what is not wished any more is removed."""
    policies = {policy.name: policy for policy in resolved.topics.values()}
    wishes = worker_objects(queue)
    _apply_all(context, queue, wishes, _initial(scaling_policy(queue, policies)))
    if made is not None:
        context.applier.prune(queue, [*made, *wishes])


def _apply_all(
    context: Context, queue: TaskQueue, wishes: Sequence[dict[str, Any]], initial: int | None
) -> None:
    """Every object; the first trouble is raised when all have been tried."""
    pool = names.workers(queue.meta.name)
    troubles: list[Blocked | RetryLater] = []
    for wish in wishes:
        try:
            if wish["kind"] == "Deployment" and wish["metadata"]["name"] == pool:
                context.applier.apply_deployment(wish, initial)
            else:
                context.applier.apply(wish)
        except (Blocked, RetryLater) as error:
            troubles.append(error)
    if troubles:
        raise troubles[0]


def _initial(scaling: ScalingPolicy | None) -> int | None:
    """The pods that a new pool begins with; None: whoever scales decides."""
    if scaling is None:
        return None
    if scaling.drain:
        return 0
    return scaling.minimum if scaling.fixed is None else scaling.fixed


def _ensure_key(context: Context, queue: TaskQueue) -> None:
    try:
        observe.connection(context.cluster, queue, context.settings)
    except Blocked:
        context.applier.create(key_secret(queue, new_key()))


def _program(
    context: Context, key: Key, queue: TaskQueue, resolved: Resolved, connection: Connection
) -> BrokerView:
    """The broker, set up and configured as the manifests say. Raises MillgateError."""
    broker = context.links.open(key, queue.broker_queue, connection)
    server = broker.server()
    holder = rivals.holder(context, key, queue, server)
    if holder is not None:
        raise Blocked(
            CONFLICT,
            f"TaskQueue {'/'.join(holder)} is older and has the tasks of queue {queue.broker_queue} on "
            f"{server.endpoint}; remove one of them, and create this one again with another broker.prefix",
        )
    policies = list(resolved.topics.values())
    if resolved.refused_names:
        policies += _kept(resolved, broker.configuration().topics)
    revision = broker.configure(policies, resolved.queue, replace=True)
    brokerd = str(server.detail.get("host", "")) if server.kind == "rabbitmq" else ""
    return BrokerView(
        server.endpoint, server.version, server.schema, revision, broker.stats(), brokerd
    )


def _kept(resolved: Resolved, stored: Any) -> list[TopicPolicy]:
    """What the broker holds for Topics whose new policy cannot be taken: they keep the last good one."""
    taken = {policy.name for policy in resolved.topics.values()}
    return [policy for name, policy in stored.items() if name in resolved.refused_names - taken]


def _enter(
    context: Context, key: Key, queue: TaskQueue, resolved: Resolved, connection: Connection
) -> None:
    paused = queue.meta.annotations.get(names.ANNOTATION_SCALE_IN) == names.PAUSED
    policies = {policy.name: policy for policy in resolved.topics.values()}
    policy = scaling_policy(queue, policies, paused=paused, advise=True)
    context.pools.put(key, queue, policy, connection.version)
    context.looks.add(key)


def _again(
    context: Context, key: Key, seen: Seen, later: float | None, took: float
) -> float | None:
    """After how many seconds to look again. What `took` long to fail waits longer, since threads are shared."""
    trouble = seen.connection or seen.objects or seen.broker.trouble or seen.pool
    if trouble is None:
        context.blocked.pop(key, None)
        return later
    now = context.clock.monotonic()
    since = context.blocked.setdefault(key, now)
    wait = min(_LATEST, max(_SOONEST, 2 * took, (now - since) * _SHARE))
    return wait if later is None else min(wait, later)
