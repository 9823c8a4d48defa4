"""What a manifest comes to: policies with every field set, and the settings of its workers. Pure.

A Topic's field wins over the queue's `defaults`, and those over Millgate's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from millgate.errors import InvalidInput
from millgate.limits import Ceiling, Rate, parse_bytes, parse_duration
from millgate.queues import (
    DeadPolicy,
    Ordering,
    QueuePolicy,
    Subscription,
    TopicPolicy,
    Undeclared,
    check_policy,
)
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy
from millgate.settings import WorkerSettings
from millgate_operator.errors import InvalidSpec
from millgate_operator.spec.parse import TaskQueue, Topic
from millgate_operator.spec.topic import Policy, TopicRate
from millgate_operator.spec.workers import Workers

_BUILT_IN: Final = TopicPolicy(name="default")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A queue's configuration for its broker, and the Topic objects that could not be taken."""

    queue: QueuePolicy
    topics: Mapping[str, TopicPolicy]  # by the name of the Topic object
    conflicts: Mapping[str, str]  # Topic object → the older Topic object that has its topic name
    refused: Mapping[str, str]  # Topic object → what is wrong with its policy, defaults applied
    refused_names: frozenset[str] = frozenset()  # topic names whose policies in the broker stay


def resolve(queue: TaskQueue, topics: Iterable[Topic]) -> Resolved:
    """Policies for the broker. Of several Topics for one topic name the oldest object counts.

    Raises InvalidSpec when the queue's `defaults` contradict themselves or Millgate's.
    """
    taken: dict[str, Topic] = {}
    conflicts: dict[str, str] = {}
    for topic in sorted(topics, key=lambda topic: (topic.meta.created, topic.meta.name)):
        holder = taken.setdefault(topic.name, topic)
        if holder is not topic:
            conflicts[topic.meta.name] = holder.meta.name
    policies: dict[str, TopicPolicy] = {}
    refused: dict[str, str] = {}
    for name, topic in sorted(taken.items()):
        policy = topic_policy(name, topic.spec, _defaults(queue))
        try:
            check_policy(policy)
            policies[topic.meta.name] = policy
        except InvalidInput as error:
            refused[topic.meta.name] = f"{error} (after the defaults of the TaskQueue)"
    broken = frozenset(name for name, topic in taken.items() if topic.meta.name in refused)
    return Resolved(queue_policy(queue), policies, conflicts, refused, broken)


def _defaults(queue: TaskQueue) -> Policy:
    return queue.spec.defaults or Policy.model_validate({})


def queue_policy(queue: TaskQueue) -> QueuePolicy:
    """What holds for all topics, and for undeclared ones. Raises InvalidSpec."""
    spec = queue.spec
    defaults = topic_policy("defaults", _defaults(queue))
    try:
        check_policy(defaults)
    except InvalidInput as error:
        raise InvalidSpec(f"spec.defaults: {error}") from None
    return QueuePolicy(
        limit=spec.limits.max_in_flight if spec.limits else None,
        max_waiting=spec.limits.max_queued if spec.limits else None,
        suspended=spec.suspend != "None",
        undeclared=Undeclared(spec.undeclared_topics),
        defaults=defaults,
    )


def topic_policy(name: str, *layers: Policy) -> TopicPolicy:
    """The policy of one topic from layers, the first that sets a field winning."""
    return TopicPolicy(
        name=name,
        paused=_pick(layers, ("paused",), _BUILT_IN.paused),
        priority=_pick(layers, ("priority",), _BUILT_IN.priority),
        weight=_pick(layers, ("weight",), _BUILT_IN.weight),
        boost_after=_duration(layers, ("ageing", "boost_after"), _BUILT_IN.boost_after),
        limit=_pick(layers, ("concurrency", "limit"), None),
        reserve=_pick(layers, ("concurrency", "reserve"), _BUILT_IN.reserve),
        key_limit=_pick(layers, ("concurrency", "per_key", "limit"), None),
        rate=_rate(_pick(layers, ("rate",), None)),
        ordering=Ordering(_pick(layers, ("ordering",), _BUILT_IN.ordering)),
        soft_timeout=_optional(layers, ("timeout", "soft")),
        hard_timeout=_duration(layers, ("timeout", "hard"), _BUILT_IN.hard_timeout),
        lease=_duration(layers, ("lease", "duration"), _BUILT_IN.lease),
        retry=_retry(layers),
        dead=DeadPolicy(_pick(layers, ("dead_letter", "policy"), _BUILT_IN.dead)),
        dead_topic=_pick(layers, ("dead_letter", "topic"), None),
        dead_retention=_duration(layers, ("dead_letter", "retention"), _BUILT_IN.dead_retention),
        dead_max=_pick(layers, ("dead_letter", "max_items"), _BUILT_IN.dead_max),
        expires_in=_optional(layers, ("queue_ttl",)),
        result_ttl=_duration(layers, ("retention", "results"), _BUILT_IN.result_ttl),
        payload_max=parse_bytes(_pick(layers, ("payload", "max_bytes"), _BUILT_IN.payload_max)),
    )


def _retry(layers: Sequence[Policy]) -> RetryPolicy:
    built_in = _BUILT_IN.retry
    where = ("retry", "backoff")
    return RetryPolicy(
        attempts=_pick(layers, ("retry", "max_attempts"), built_in.attempts),
        losses=_pick(layers, ("retry", "max_lost"), built_in.losses),
        interruptions=_pick(layers, ("retry", "max_interrupted"), built_in.interruptions),
        backoff=Backoff(
            type=BackoffType(_pick(layers, (*where, "type"), built_in.backoff.type)),
            initial=_duration(layers, (*where, "initial"), built_in.backoff.initial),
            factor=_pick(layers, (*where, "factor"), built_in.backoff.factor),
            max=_duration(layers, (*where, "max"), built_in.backoff.max),
            jitter=Jitter(_pick(layers, (*where, "jitter"), built_in.backoff.jitter)),
        ),
    )


def _rate(rate: TopicRate | None) -> Rate | None:
    return None if rate is None else Rate(rate.count, parse_duration(rate.per), rate.burst)


def _pick(layers: Sequence[Policy], path: tuple[str, ...], built_in: Any) -> Any:
    for layer in layers:
        value: Any = layer
        for step in path:
            value = getattr(value, step, None)
        if value is not None:
            return value
    return built_in


def _optional(layers: Sequence[Policy], path: tuple[str, ...]) -> float | None:
    text = _pick(layers, path, None)
    return None if text is None else parse_duration(text)


def _duration(layers: Sequence[Policy], path: tuple[str, ...], built_in: float) -> float:
    found = _optional(layers, path)
    return built_in if found is None else found


def subscription(workers: Workers) -> Subscription:
    """The topics that the pool takes."""
    chosen = workers.topics
    if chosen is None:
        return Subscription()
    return Subscription(chosen.include, chosen.exclude, chosen.ordered)


def worker_settings(
    queue: TaskQueue, *, broker: str = "", broker_file: str = "", metrics: str = ""
) -> WorkerSettings:
    """What each worker of the queue is started with; its name is left to whoever starts it.

    `broker` is a URL, `broker_file` a file with one; give one of them. The queue must have `workers`.
    """
    workers = queue.spec.workers
    if workers is None:
        raise InvalidSpec("spec.workers is missing; there is no worker to start")
    topics, memory = subscription(workers), workers.memory
    return WorkerSettings(
        broker=broker,
        broker_file=broker_file,
        queue=queue.broker_queue,
        app=workers.app,
        topics=topics.include,
        exclude=topics.exclude,
        ordered=topics.ordered,
        children=workers.children,
        slots=workers.slots,
        max_rss=_ceiling(memory.max_rss) if memory else None,
        hard_max_rss=_ceiling(memory.hard_max_rss) if memory else None,
        max_tasks=workers.max_tasks_per_child,
        max_lifetime=parse_duration(workers.max_child_lifetime or "0s"),
        drain_timeout=parse_duration(workers.drain_timeout),
        metrics=metrics,
        preload=workers.preload,
    )


def _ceiling(value: int | str | None) -> Ceiling | None:
    return None if value is None else Ceiling.parse(value)
