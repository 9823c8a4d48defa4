"""What holds for one run: the send's own options, then the task's, then the topic's. Pure."""

from __future__ import annotations

from millgate.frozen import dataclass
from millgate.message import Options
from millgate.queues import TopicPolicy
from millgate.retry import RetryPolicy
from millgate.settlement import MEMBER_TTL
from millgate.spec import TaskWire


@dataclass(frozen=True, slots=True)
class Terms:
    """Times in seconds. `soft` is None when the run has no soft timeout."""

    soft: float | None
    hard: float
    retry: RetryPolicy
    payload_max: int | None  # bytes of the record of the next step of a chain
    result_ttl: float = MEMBER_TTL  # seconds for which the topic keeps results


def resolve(options: Options, task: TaskWire, topic: TopicPolicy) -> Terms:
    """The terms of one run of a task."""
    soft, hard = task.timeouts(options, topic)
    return Terms(soft, hard, task.retry_policy(options, topic), topic.payload_max, topic.result_ttl)
