"""Manifests as values: the models of both kinds, reading them, and what they come to. Pure, without Kubernetes."""

from millgate_operator.spec.parse import (
    Meta,
    TaskQueue,
    Topic,
    parse,
    parse_task_queue,
    parse_topic,
)
from millgate_operator.spec.resolve import (
    Resolved,
    queue_policy,
    resolve,
    subscription,
    topic_policy,
    worker_settings,
)
from millgate_operator.spec.taskqueue import TaskQueueSpec
from millgate_operator.spec.topic import Policy, TopicSpec
from millgate_operator.spec.workers import Autoscaling, Workers

__all__ = [
    "Autoscaling",
    "Meta",
    "Policy",
    "Resolved",
    "TaskQueue",
    "TaskQueueSpec",
    "Topic",
    "TopicSpec",
    "Workers",
    "parse",
    "parse_task_queue",
    "parse_topic",
    "queue_policy",
    "resolve",
    "subscription",
    "topic_policy",
    "worker_settings",
]
