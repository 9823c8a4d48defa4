"""The TaskQueue kind: a broker, a queue on it, and the workers. The only place for its fields and rules. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from millgate_operator.spec.topic import Policy
from millgate_operator.spec.types import PREFIX_PATTERN, Model, ObjectName, Quantity, Rule
from millgate_operator.spec.workers import Workers


class SecretRef(Model):
    """A key of a Secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret, in the same namespace.")
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)] = Field(
        "uri",
        description="The key whose value is the broker's URL (postgresql://user:password@host/database, "
        "redis://user:password@host:6379/0, amqp://user:password@host/vhost).",
    )


class Connection(Model):
    """How the broker is reached."""

    secret_ref: SecretRef = Field(
        description="The Secret with the broker's URL. It is mounted, never copied: the URL can name its other keys as "
        "files (…&sslrootcert=/etc/millgate/broker/ca.crt), and a changed Secret is taken up without a restart."
    )


class Storage(Model):
    """A volume for a Local broker."""

    size: Quantity = Field("1Gi", description="Size of the volume; cannot be changed afterwards.")
    storage_class_name: ObjectName | None = Field(
        None, description="StorageClass of the volume. Default: the cluster's."
    )


class LocalBroker(Model):
    """The broker pod that the operator runs."""

    storage: Storage | None = Field(
        None,
        description="Keep the tasks on a volume. Without it they go with the pod: when its node goes, when resources "
        "change, and when the operator is upgraded.",
    )
    resources: dict[str, Any] | None = Field(
        None,
        description="Requests and limits of the broker's container. Default: requests of 50m and 64Mi.",
    )


class RabbitMQBroker(Model):
    """The pods that decide about a queue on RabbitMQ, which the operator runs."""

    replicas: Annotated[int, Field(ge=1, le=5)] = Field(
        2,
        description="Pods of brokerd. One of them serves the queue, whatever their number; the others stand by and "
        "take over within seconds. With 1 the queue stands still while a lost pod is started anew.",
    )
    resources: dict[str, Any] | None = Field(
        None,
        description="Requests and limits of brokerd's container. Default: requests of 50m and 64Mi. Each pod holds "
        "every task that waits in memory: its payload and about half a KiB more.",
    )


class BrokerSpec(Model):
    """Where the tasks are."""

    type: Literal["Local", "Postgres", "Redis", "RabbitMQ"] = Field(
        description="Local: the operator runs a broker pod, for trying and for small installations. Postgres: your "
        "database, named by connection. Redis: your Redis or Valkey, named by connection. RabbitMQ: your server or "
        "cluster, named by connection; the operator runs brokerd beside it. Cannot be changed: create another "
        "TaskQueue and empty this one."
    )
    connection: Connection | None = Field(
        None, description="How the broker is reached. Needed for all types but Local."
    )
    prefix: Annotated[str, Field(pattern=PREFIX_PATTERN, max_length=63)] | None = Field(
        None,
        description="Name of the queue on the broker, in PostgreSQL of its schema ('.' and '-' written as '_'), in "
        "Redis of its keys (mg:{NAME}:), in RabbitMQ of its queues (millgate.NAME.); clients give it as queue=. "
        "Default: <namespace>.<name>. Cannot be changed. Two TaskQueues on one broker need two.",
    )
    local: LocalBroker | None = Field(None, description="The broker pod that the operator runs.")
    rabbitmq: RabbitMQBroker | None = Field(
        None, description="The pods that decide about a queue on RabbitMQ, which the operator runs."
    )

    rules = (
        Rule(
            "self.type == oldSelf.type",
            "broker.type cannot be changed; create another TaskQueue and empty this one",
        ),
        Rule(
            "has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",
            "broker.prefix cannot be changed; create another TaskQueue and empty this one",
        ),
        Rule(
            "!has(self.local) || self.type == 'Local'",
            "local is for broker.type Local; remove it",
            lambda self: self.local is None or self.type == "Local",
        ),
        Rule(
            "!has(self.rabbitmq) || self.type == 'RabbitMQ'",
            "rabbitmq is for broker.type RabbitMQ; remove it",
            lambda self: self.rabbitmq is None or self.type == "RabbitMQ",
        ),
        Rule(
            "(has(self.local) && has(self.local.storage)) == (has(oldSelf.local) && has(oldSelf.local.storage)) && "
            "(!has(self.local) || !has(self.local.storage) || self.local.storage == oldSelf.local.storage)",
            "broker.local.storage cannot be changed; create another TaskQueue and empty this one",
        ),
        Rule(
            "self.type == 'Local' || has(self.connection)",
            "this broker.type needs connection.secretRef.name, a Secret whose key uri holds the broker's URL",
            lambda self: self.type == "Local" or self.connection is not None,
        ),
        Rule(
            "self.type != 'Local' || !has(self.connection)",
            "a Local broker is run by the operator and has no connection; remove it, or choose another type",
            lambda self: self.type != "Local" or self.connection is None,
        ),
    )


class QueueLimits(Model):
    """What holds for all topics together."""

    max_in_flight: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        None, description="Most tasks of the queue that run at once. Unset: no limit."
    )
    max_queued: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None,
        description="Most tasks that wait; above it send raises QueueFull and stores nothing. Unset: no limit.",
    )


class TaskQueueSpec(Model):
    """A broker, a queue on it, and the workers that take its tasks."""

    broker: BrokerSpec = Field(description="Where the tasks are.")
    defaults: Policy | None = Field(
        None, description="The policy of undeclared topics, and of what a Topic leaves out."
    )
    undeclared_topics: Literal["Allow", "Reject"] = Field(
        "Allow",
        description="Whether tasks for topics without a Topic object are taken (with the policy of defaults) or "
        "refused at send.",
    )
    limits: QueueLimits | None = Field(None, description="What holds for all topics together.")
    suspend: Literal["None", "Hold", "HoldAndDrain"] = Field(
        "None",
        description="Hold: no task starts, workers stay, sending goes on. HoldAndDrain: the workers also leave when "
        "what runs has ended.",
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        "Retain",
        description="What becomes of the tasks when this object is deleted. Retain: they stay in the broker, and are "
        "there again for a TaskQueue of the same queue. Delete: those that wait and the dead letters are removed, and "
        "what runs is waited for, at most 10 minutes.",
    )
    workers: Workers | None = Field(
        None, description="The pods that run the tasks. Unset: none, workers run elsewhere."
    )
