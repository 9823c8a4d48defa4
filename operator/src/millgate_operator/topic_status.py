"""What a topic's status says: whether its policy is taken, is in the broker, and has workers; and its numbers. Pure."""

from __future__ import annotations

from typing import Any

from millgate.limits import format_duration
from millgate.queues import TopicPolicy
from millgate_operator.conditions import Condition, no, yes
from millgate_operator.observed import Seen
from millgate_operator.spec import Topic, subscription
from millgate_operator.status import sums


def topic_conditions(topic: Topic, seen: Seen | None) -> list[Condition]:
    """All conditions of a Topic; `seen` None: there is no TaskQueue of that name."""
    accepted = _accepted(topic, seen)
    out = [accepted]
    if accepted.status and seen is not None:
        out += [_programmed(seen), _served(topic, seen)]
    wrong = next((answer for answer in out if not answer.status), None)
    if wrong is not None:
        return [Condition("Ready", wrong.status, wrong.reason, wrong.message, wrong.bad), *out]
    return [yes("Ready", "Ready", "the broker holds this policy"), *out]


def _accepted(topic: Topic, seen: Seen | None) -> Condition:
    queue = topic.spec.queue_ref.name
    if seen is None:
        return no(
            "Accepted",
            "QueueNotFound",
            f"there is no TaskQueue {queue} in namespace {topic.meta.namespace}; create it, or mend spec.queueRef.name",
        )
    if seen.resolved is None:
        trouble = seen.spec
        words = f"TaskQueue {queue} has to be mended first" + (
            f": {trouble.message}" if trouble else ""
        )
        return no("Accepted", "QueueInvalid", words)
    holder = seen.resolved.conflicts.get(topic.meta.name)
    if holder is not None:
        return no(
            "Accepted",
            "NameConflict",
            f"Topic {holder} is older and has the topic name {topic.name} already; remove one of them",
        )
    refused = seen.resolved.refused.get(topic.meta.name)
    if refused is not None:
        return no("Accepted", "InvalidPolicy", refused)
    return yes("Accepted", "Accepted", f"topic {topic.name} of TaskQueue {queue}")


def _programmed(seen: Seen) -> Condition:
    trouble = seen.connection or seen.broker.trouble
    if trouble is not None:
        words = f"the broker does not hold this yet: {trouble.message}"
        return no("Programmed", trouble.reason, words, bad=False)
    if seen.broker.revision is None:
        return no("Programmed", "Pending", "the broker does not hold this yet", bad=False)
    return yes("Programmed", "Programmed", f"revision {seen.broker.revision} in the broker")


def _served(topic: Topic, seen: Seen) -> Condition:
    workers = seen.queue.spec.workers
    if workers is None or subscription(workers).matches(topic.name):
        return yes("Served", "Served", "the workers take this topic")
    words = f"workers.topics of TaskQueue {seen.queue.meta.name} leaves {topic.name} out; nobody runs its tasks"
    return no("Served", "NotServed", words)


def topic_fields(topic: Topic, seen: Seen | None) -> dict[str, Any]:
    """Everything of a Topic's status but conditions and observedGeneration."""
    out: dict[str, Any] = {"topicName": topic.name}
    if seen is None or seen.resolved is None or topic.meta.name not in seen.resolved.topics:
        return out
    out["effective"] = _effective(seen.resolved.topics[topic.meta.name])
    revision, stats = seen.broker.revision, seen.broker.stats
    if revision is not None:
        out["configRevision"] = revision
    if revision is not None and stats is not None:
        current = sum(row.beat.revision >= revision for row in stats.workers)
        out["appliedBy"] = {"workers": current, "of": len(stats.workers)}
    if stats is not None and topic.name in stats.topics:
        out["summary"] = sums([stats.topics[topic.name]])
    return out


def _effective(policy: TopicPolicy) -> dict[str, Any]:
    found: dict[str, Any] = {
        "priority": policy.priority,
        "weight": policy.weight,
        "limit": policy.effective_limit,
        "perKey": policy.effective_key_limit,
        "rate": str(policy.rate) if policy.rate else None,
        "hardTimeout": format_duration(policy.hard_timeout),
        "maxAttempts": policy.retry.attempts,
    }
    return {name: value for name, value in found.items() if value is not None}
