"""The Topic kind: a lane of a TaskQueue and its policy. The only place for its fields, defaults and rules. Pure.

No policy field has a default in the schema: what a Topic leaves out comes from the queue's `defaults`, then from
Millgate. A default in the schema would fill in every Topic before the queue's could apply.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from millgate.limits import parse_bytes, parse_duration
from millgate_operator.spec.types import (
    Duration,
    Model,
    ObjectName,
    Quantity,
    Rule,
    TopicName,
    at_least,
    at_most,
    seconds,
)

OTHER_TOPIC_MESSAGE = "deadLetter.topic must be another topic than this one"


class PerKey(Model):
    """A limit for each concurrency key."""

    limit: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        description="Most tasks of one key that run at once in the whole fleet; the key is given at send "
        "(a tenant, an account)."
    )


class Concurrency(Model):
    """How many tasks of the topic run at once."""

    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="Most tasks of this topic that run at once in the whole fleet, enforced by the broker in the "
        "claim. Unset: no limit. To stop a topic, set paused.",
    )
    reserve: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None,
        description="Slots of the queue's limits.maxInFlight that are kept for this topic even when others are busy. "
        "Default 0.",
    )
    per_key: PerKey | None = Field(None, description="A limit for each concurrency key.")

    rules = (
        Rule(
            "!has(self.reserve) || !has(self.limit) || self.reserve <= self.limit",
            "reserve must not be above limit",
            lambda self: self.reserve is None or self.limit is None or self.reserve <= self.limit,
        ),
    )


class TopicRate(Model):
    """How often tasks may start."""

    count: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        description="Tasks that may start in each `per`, in the whole fleet."
    )
    per: Duration = Field("1s", description="The period that count refers to, like 1s, 5m or 1h.")
    burst: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Most tasks that may start at once after a pause. Default: count."
    )

    rules = (at_least("per", "per", "100ms"),)


class Timeout(Model):
    """How long one run may take."""

    soft: Duration | None = Field(
        None,
        description="After this, SoftTimeout is raised inside the task, so that it can clean up.",
    )
    hard: Duration | None = Field(
        None, description="After this, the task's process tree is killed. Default 1h; at most 168h."
    )

    rules = (
        Rule(
            "!has(self.soft) || !has(self.hard) || duration(self.soft) < duration(self.hard)",
            "soft must be below hard",
            lambda self: (
                self.soft is None
                or self.hard is None
                or parse_duration(self.soft) < parse_duration(self.hard)
            ),
        ),
        at_least("soft", "soft", "1ms"),
        at_least("hard", "hard", "1s"),
        at_most("hard", "hard", "168h"),
    )


class Lease(Model):
    """How soon a dead worker's task runs elsewhere."""

    duration: Duration | None = Field(
        None,
        description="How long a claim lives without renewal. Workers renew at a third of it, so a long task needs no "
        "long lease; a short one means quick recovery. Default 60s; 5s to 1h.",
    )

    rules = (at_least("duration", "duration", "5s"), at_most("duration", "duration", "1h"))


class TopicBackoff(Model):
    """Waits between attempts."""

    type: Literal["Exponential", "Fixed"] | None = Field(
        None,
        description="Exponential (the default) multiplies the wait by factor each time; Fixed does not.",
    )
    initial: Duration | None = Field(None, description="The first wait. Default 2s.")
    factor: Annotated[int, Field(ge=1, le=10)] | None = Field(
        None, description="What each wait is multiplied by. Default 2."
    )
    max: Duration | None = Field(None, description="The longest wait. Default 10m.")
    jitter: Literal["Full", "None"] | None = Field(
        None,
        description="Full (the default) waits a random part of it, so that retries do not come as one wave; None waits "
        "exactly.",
    )

    rules = (
        Rule(
            "!has(self.initial) || !has(self.max) || duration(self.initial) <= duration(self.max)",
            "initial must not be above max",
            lambda self: (
                self.initial is None
                or self.max is None
                or parse_duration(self.initial) <= parse_duration(self.max)
            ),
        ),
    )


class Retry(Model):
    """What happens when a task fails."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None,
        description="Runs that the task itself may end badly before it becomes a dead letter. Default 4; 1 means no "
        "retry.",
    )
    max_lost: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None,
        description="Runs that may be lost with their worker or process (memory, node) before the task becomes a dead "
        "letter. Default 5. Draining a worker charges nothing.",
    )
    max_interrupted: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None,
        description="Times that the task may be given back on purpose (drains; waits for a lock are counted too) "
        "before a drain that cuts it short makes it a dead letter. Default 10000.",
    )
    backoff: TopicBackoff | None = Field(None, description="Waits between attempts.")


class DeadLetter(Model):
    """What becomes of a task that is given up."""

    policy: Literal["Keep", "Drop", "Forward"] | None = Field(
        None,
        description="Keep (the default) stores it whole with the reason, to look at and replay; Drop forgets it; "
        "Forward sends it to another topic as a new task.",
    )
    topic: TopicName | None = Field(None, description="The topic that Forward sends to.")
    retention: Duration | None = Field(
        None, description="How long Keep stores it. Default 336h (two weeks)."
    )
    max_items: Annotated[int, Field(ge=0, le=10_000_000)] | None = Field(
        None,
        description="Most dead letters kept for the topic, the oldest go first. Default 100000; 0: no bound by number.",
    )

    rules = (
        Rule(
            "!has(self.policy) || self.policy != 'Forward' || has(self.topic)",
            "policy Forward needs topic, where the task is sent to",
            lambda self: self.policy != "Forward" or self.topic is not None,
        ),
        Rule(
            "!has(self.topic) || (has(self.policy) && self.policy == 'Forward')",
            "topic is read with policy Forward only; set policy: Forward or remove topic",
            lambda self: self.topic is None or self.policy == "Forward",
        ),
    )


class Ageing(Model):
    """What keeps low priorities from starving."""

    boost_after: Duration | None = Field(
        None,
        description="Each such time that a task has waited raises its priority by one. Default 10m; 0s: "
        "never.",
    )


class Retention(Model):
    """How long finished tasks are remembered."""

    results: Duration | None = Field(None, description="How long results are kept. Default 24h.")


class Payload(Model):
    """The size of a task."""

    max_bytes: Quantity | None = Field(
        None,
        description="Largest encoded call (arguments included); send refuses more. Default 256Ki, at most 16Mi.",
    )

    rules = (
        Rule(
            "!has(self.maxBytes) || quantity(string(self.maxBytes)).compareTo(quantity('16Mi')) <= 0",
            "maxBytes must be at most 16Mi; send a reference instead of the data",
            lambda self: self.max_bytes is None or parse_bytes(self.max_bytes) <= 16 * 2**20,
        ),
        Rule(
            "!has(self.maxBytes) || quantity(string(self.maxBytes)).compareTo(quantity('1')) >= 0",
            "maxBytes must be at least 1; leave it out for 256Ki",
            lambda self: self.max_bytes is None or parse_bytes(self.max_bytes) >= 1,
        ),
    )


class Policy(Model):
    """Everything that a topic's tasks obey; also the queue's `defaults`."""

    paused: bool | None = Field(
        None, description="No task of this topic starts; sending goes on. Default false."
    )
    priority: Annotated[int, Field(ge=0, le=9)] | None = Field(
        None, description="Strict order between topics: 9 is served before 8. Default 5."
    )
    weight: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None,
        description="Share among topics of the same priority: 20 is served twice as often as 10. Default 10.",
    )
    ageing: Ageing | None = Field(None, description="What keeps low priorities from starving.")
    concurrency: Concurrency | None = Field(
        None, description="How many tasks run at once, in the whole fleet."
    )
    rate: TopicRate | None = Field(
        None, description="How often tasks may start, in the whole fleet (a token bucket)."
    )
    ordering: Literal["None", "PerKey", "FIFO"] | None = Field(
        None,
        description="None (the default): the oldest that may start. PerKey: the next task of a key starts when the "
        "previous one has ended for good. FIFO: the same for the whole topic, one at a time.",
    )
    timeout: Timeout | None = Field(None, description="How long one run may take.")
    lease: Lease | None = Field(None, description="How soon a dead worker's task runs elsewhere.")
    retry: Retry | None = Field(None, description="What happens when a task fails.")
    dead_letter: DeadLetter | None = Field(
        None, description="What becomes of a task that is given up."
    )
    queue_ttl: Duration | None = Field(
        None,
        alias="queueTTL",
        description="A task that has not started after this becomes a dead letter (reason Expired). A task's own "
        "`expires` wins. Default: never.",
    )
    retention: Retention | None = Field(None, description="How long finished tasks are remembered.")
    payload: Payload | None = Field(None, description="The size of a task.")

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.ordering) || self.ordering != 'FIFO' || !has(self.concurrency) || "
            "!has(self.concurrency.limit) || self.concurrency.limit <= 1",
            "ordering FIFO runs one task at a time; set concurrency.limit to 1 or remove it",
            lambda self: (
                self.ordering != "FIFO"
                or self.concurrency is None
                or self.concurrency.limit in (None, 1)
            ),
        ),
        at_least("queue_ttl", "queueTTL", "1ms"),
    )

    @property
    def hard_timeout(self) -> float | None:
        """Seconds, when set."""
        return seconds(self.timeout.hard) if self.timeout else None


class QueueRef(Model):
    """A TaskQueue in the same namespace."""

    name: ObjectName = Field(description="Name of the TaskQueue, in the same namespace.")


class TopicSpec(Policy):
    """A lane of a TaskQueue, with limits that the broker enforces for the whole fleet."""

    queue_ref: QueueRef = Field(
        description="The TaskQueue that this topic belongs to. Cannot be changed."
    )
    topic_name: TopicName | None = Field(
        None,
        description="The name that tasks are sent to. Default: the name of this object. Cannot be changed.",
    )

    rules = (
        *Policy.rules,
        Rule(
            "self.queueRef.name == oldSelf.queueRef.name",
            "queueRef cannot be changed; create another Topic",
        ),
        Rule(
            "has(self.topicName) == has(oldSelf.topicName) && "
            "(!has(self.topicName) || self.topicName == oldSelf.topicName)",
            "topicName cannot be changed; create another Topic",
        ),
        Rule(
            "!has(self.deadLetter) || !has(self.deadLetter.topic) || !has(self.topicName) || "
            "self.deadLetter.topic != self.topicName",
            OTHER_TOPIC_MESSAGE,
            lambda self: (
                self.dead_letter is None
                or self.topic_name is None
                or self.dead_letter.topic != self.topic_name
            ),
        ),
    )
