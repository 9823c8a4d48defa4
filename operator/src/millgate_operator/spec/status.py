"""What the operator writes into `status`: the models that give the schema and the documentation. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millgate_operator.spec.types import Model

_Text = Annotated[str, Field(max_length=1024)]


class Condition(Model):
    """One observed aspect, shaped as Kubernetes conditions are."""

    type: Annotated[str, Field(max_length=316)] = Field(description="What it is about.")
    status: Annotated[str, Field(pattern="^(True|False|Unknown)$")] = Field(
        description="True, False or Unknown."
    )
    reason: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="One word for the cause, for programs; stable between versions."
    )
    message: Annotated[str, Field(max_length=32768)] = Field(
        description="The cause in words, and what to do about it."
    )
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] = Field(
        description="When status last changed."
    )
    observed_generation: int | None = Field(
        None, description="The metadata.generation that it was judged by."
    )


class BrokerStatus(Model):
    """The broker as it was met."""

    type: _Text | None = Field(None, description="Its type.")
    endpoint: _Text | None = Field(None, description="Where it is, without user and password.")
    server_version: _Text | None = Field(None, description="The server's version.")
    schema_version: int | None = Field(None, description="The version of what is stored in it.")
    queue: _Text | None = Field(
        None, description="The queue's name on it; clients give it as queue=."
    )
    brokerd: _Text | None = Field(
        None, description="On RabbitMQ: the pod that served the queue when it was last looked at."
    )
    secret_resource_version: _Text | None = Field(
        None, description="The resourceVersion of the connection Secret in use."
    )


class Binding(Model):
    """The Secret that clients mount (service binding)."""

    name: _Text = Field(description="Name of the Secret.")


class DecisionStatus(Model):
    """The autoscaler's last change."""

    desired: int = Field(description="The number of pods decided on.")
    reason: _Text = Field(description="Why.")
    limited_by: _Text | None = Field(None, description="What kept it from more, or from less.")
    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})] = Field(
        description="When."
    )


class WorkersStatus(Model):
    """The worker pool."""

    replicas: int | None = Field(None, description="Pods there are.")
    selector: _Text | None = Field(None, description="The labels that pick the pods, as a text.")
    desired: int | None = Field(None, description="Pods that there should be.")
    ready: int | None = Field(None, description="Pods that are ready.")
    updated: int | None = Field(None, description="Pods that run the present template.")
    busy: int | None = Field(None, description="Workers that run tasks.")
    draining: int | None = Field(
        None, description="Workers that take no more tasks and will leave."
    )
    cold_start_seconds: int | None = Field(
        None, description="Seconds from a pod's creation until it is ready (95th percentile)."
    )
    decision: DecisionStatus | None = Field(None, description="The autoscaler's last change.")


class Summary(Model):
    """Tasks, rounded to two digits and refreshed at most every half minute."""

    queued: int | None = Field(None, description="Tasks that wait, delayed ones included.")
    running: int | None = Field(None, description="Tasks that run.")
    dead: int | None = Field(None, description="Dead letters.")
    oldest_seconds: int | None = Field(
        None, description="How long the oldest task that could run has waited."
    )


class TopicsStatus(Model):
    """The queue's topics."""

    declared: int | None = Field(None, description="Topics with a Topic object.")
    undeclared_count: int | None = Field(None, description="Topics without one that have tasks.")
    undeclared: tuple[_Text, ...] = Field(
        (), max_length=20, description="Their names, the first twenty."
    )


class TaskQueueStatus(Model):
    """What the operator found and did."""

    observed_generation: int | None = Field(
        None, description="The metadata.generation that the operator last worked on."
    )
    conditions: tuple[Condition, ...] = Field(
        (), max_length=16, description="Aspects, by type; Ready sums them up."
    )
    broker: BrokerStatus | None = Field(None, description="The broker as it was met.")
    binding: Binding | None = Field(
        None, description="The Secret that clients mount (service binding)."
    )
    config_revision: int | None = Field(
        None, description="The revision of the configuration in the broker."
    )
    workers: WorkersStatus | None = Field(None, description="The worker pool.")
    summary: Summary | None = Field(None, description="The tasks of all topics.")
    topics: TopicsStatus | None = Field(None, description="The queue's topics.")


class AppliedBy(Model):
    """How far a change has come."""

    workers: int = Field(description="Workers that have read this revision or a later one.")
    of: int = Field(description="Workers there are.")


class Effective(Model):
    """The policy that holds after defaults."""

    priority: int = Field(description="Priority between topics.")
    weight: int = Field(description="Share within a priority.")
    limit: int | None = Field(None, description="Most tasks at once.")
    per_key: int | None = Field(None, description="Most tasks at once for each key.")
    rate: _Text | None = Field(None, description="How often tasks may start.")
    hard_timeout: _Text | None = Field(None, description="How long one run may take.")
    max_attempts: int | None = Field(None, description="Runs before a task is given up.")


class TopicStatus(Model):
    """What the operator found and did."""

    observed_generation: int | None = Field(
        None, description="The metadata.generation that the operator last worked on."
    )
    conditions: tuple[Condition, ...] = Field(
        (), max_length=16, description="Aspects, by type; Ready sums them up."
    )
    topic_name: _Text | None = Field(None, description="The name that tasks are sent to.")
    config_revision: int | None = Field(
        None, description="The broker's revision that holds this policy."
    )
    applied_by: AppliedBy | None = Field(None, description="How far the last change has come.")
    effective: Effective | None = Field(None, description="The policy that holds after defaults.")
    summary: Summary | None = Field(None, description="The topic's tasks.")
