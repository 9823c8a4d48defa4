"""TaskQueue and Topic manifests for tests: good ones to change, and wrong ones with the words that refuse them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

API_VERSION = "millgate.dev/v1alpha1"

WORKERS: dict[str, Any] = {"image": "registry.example/hello:1", "app": "hello.tasks:app"}


def a_task_queue(name: str = "hello", **spec: Any) -> dict[str, Any]:
    """A TaskQueue with a Local broker and workers; `spec` replaces parts of it, None removes one."""
    base: dict[str, Any] = {"broker": {"type": "Local"}, "workers": copy.deepcopy(WORKERS)}
    return _object("TaskQueue", name, base | spec)


def a_topic(name: str = "invoices", queue: str = "hello", **spec: Any) -> dict[str, Any]:
    """A Topic of `queue`."""
    return _object("Topic", name, {"queueRef": {"name": queue}} | spec)


def workers(**fields: Any) -> dict[str, Any]:
    """The smallest workers section, with more fields."""
    return copy.deepcopy(WORKERS) | fields


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if value is not None}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": kept}


class Wrong(NamedTuple):
    """A manifest that is refused, and words that the refusal must have (server and parser alike)."""

    what: str
    manifest: dict[str, Any]
    words: str


def _auto(**fields: Any) -> dict[str, Any]:
    return workers(autoscaling=fields)


WRONG: tuple[Wrong, ...] = (
    Wrong("a name too long for its pods", a_task_queue("q" * 41), "at most 40 characters"),
    Wrong("a name that no Service can have", a_task_queue("shop.hello"), "must have no dot"),
    Wrong(
        "Postgres without a connection",
        a_task_queue(broker={"type": "Postgres"}),
        "needs connection.secretRef.name",
    ),
    Wrong(
        "Local with a connection",
        a_task_queue(broker={"type": "Local", "connection": {"secretRef": {"name": "db"}}}),
        "a Local broker is run by the operator and has no connection",
    ),
    Wrong(
        "a section of another broker",
        a_task_queue(
            broker={"type": "Postgres", "connection": {"secretRef": {"name": "db"}}, "local": {}}
        ),
        "local is for broker.type Local",
    ),
    Wrong(
        "RabbitMQ without a connection",
        a_task_queue(broker={"type": "RabbitMQ", "rabbitmq": {"replicas": 3}}),
        "needs connection.secretRef.name",
    ),
    Wrong(
        "brokerd for a broker that has none",
        a_task_queue(
            broker={
                "type": "Redis",
                "connection": {"secretRef": {"name": "cache"}},
                "rabbitmq": {"replicas": 1},
            }
        ),
        "rabbitmq is for broker.type RabbitMQ",
    ),
    Wrong(
        "amounts in the wrong order",
        a_task_queue(workers=workers(memory={"maxRSS": "1Gi", "hardMaxRSS": "600Mi"})),
        "maxRSS must be below hardMaxRSS",
    ),
    Wrong(
        "bare numbers in the wrong order",
        a_task_queue(workers=workers(memory={"maxRSS": 500000000, "hardMaxRSS": "400M"})),
        "maxRSS must be below hardMaxRSS",
    ),
    Wrong(
        "shares in the wrong order",
        a_task_queue(workers=workers(memory={"maxRSS": "50%", "hardMaxRSS": "9%"})),
        "maxRSS must be below hardMaxRSS",
    ),
    Wrong(
        "memory whose unit was forgotten",
        a_task_queue(workers=workers(memory={"maxRSS": 400})),
        "maxRSS must be at least 10Mi, as no child has less; write it with its unit, like 400Mi",
    ),
    Wrong(
        "a hard ceiling under what Python takes",
        a_task_queue(workers=workers(memory={"hardMaxRSS": "9Mi"})),
        "hardMaxRSS must be at least 10Mi",
    ),
    Wrong(
        "ordered without an order",
        a_task_queue(workers=workers(topics={"ordered": True})),
        "ordered needs include",
    ),
    Wrong(
        "bounds in the wrong order",
        a_task_queue(workers=_auto(min=5, max=3)),
        "min must not be above max",
    ),
    Wrong(
        "replicas beside the autoscaler",
        a_task_queue(workers=workers(replicas=3, autoscaling={"mode": "Auto"})),
        "replicas is for mode Manual",
    ),
    Wrong(
        "Manual without a number",
        a_task_queue(workers=_auto(mode="Manual")),
        "mode Manual needs replicas",
    ),
    Wrong(
        "bounds for somebody else's scaling",
        a_task_queue(workers=_auto(mode="External", max=5)),
        "only mode Auto reads the other autoscaling fields",
    ),
    Wrong(
        "a variable of the operator's",
        a_task_queue(workers=workers(env=[{"name": "MILLGATE_BROKER", "value": "x"}])),
        "variables that begin with MILLGATE_ are set by the operator",
    ),
    Wrong(
        "a drain longer than a week",
        a_task_queue(workers=workers(drainTimeout="169h")),
        "drainTimeout must be at most 168h",
    ),
    Wrong(
        "a reserve above the limit",
        a_topic(concurrency={"limit": 3, "reserve": 4}),
        "reserve must not be above limit",
    ),
    Wrong(
        "FIFO with two at once",
        a_topic(ordering="FIFO", concurrency={"limit": 2}),
        "ordering FIFO runs one task at a time",
    ),
    Wrong(
        "timeouts in the wrong order",
        a_topic(timeout={"soft": "10m", "hard": "600s"}),
        "soft must be below hard",
    ),
    Wrong(
        "waits in the wrong order",
        a_topic(retry={"backoff": {"initial": "1h", "max": "10m"}}),
        "initial must not be above max",
    ),
    Wrong(
        "Forward to nowhere",
        a_topic(deadLetter={"policy": "Forward"}),
        "policy Forward needs topic",
    ),
    Wrong(
        "a dead letter topic that nobody reads",
        a_topic(deadLetter={"topic": "graveyard"}),
        "topic is read with policy Forward only",
    ),
    Wrong(
        "Forward to itself",
        a_topic(topicName="a", deadLetter={"policy": "Forward", "topic": "a"}),
        "must be another topic than this one",
    ),
    Wrong(
        "Forward to itself, by the name of the object",
        a_topic("a", deadLetter={"policy": "Forward", "topic": "a"}),
        "must be another topic than this one",
    ),
    Wrong("a name that no topic can have", a_topic("a" * 129), "at most 128 characters; set topic"),
    Wrong("no time to start in", a_topic(queueTTL="0s"), "queueTTL must be at least 1ms"),
    Wrong("no room for any call", a_topic(payload={"maxBytes": 0}), "maxBytes must be at least 1"),
    Wrong("a lease too short", a_topic(lease={"duration": "4s"}), "duration must be at least 5s"),
    Wrong(
        "a rate too fine", a_topic(rate={"count": 1, "per": "50ms"}), "per must be at least 100ms"
    ),
    Wrong(
        "a payload too large",
        a_topic(payload={"maxBytes": "17Mi"}),
        "maxBytes must be at most 16Mi",
    ),
)

#: Refused by the schema alone; the two sides have their own words.
MALFORMED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("an unknown field", a_task_queue(wrokers={}), "wrokers"),
    ("a duration without unit", a_task_queue(workers=workers(drainTimeout="600")), "drainTimeout"),
    ("days, which CEL has not", a_topic(queueTTL="14d"), "queueTTL"),
    ("memory without sense", a_task_queue(workers=workers(memory={"maxRSS": "lots"})), "maxRSS"),
    ("an app without attribute", a_task_queue(workers=workers(app="hello.tasks")), "app"),
    ("a broker that is no broker", a_task_queue(broker={"type": "Kafka"}), "type"),
    (
        "nobody to serve a queue on RabbitMQ",
        a_task_queue(
            broker={
                "type": "RabbitMQ",
                "connection": {"secretRef": {"name": "rabbit"}},
                "rabbitmq": {"replicas": 0},
            }
        ),
        "replicas",
    ),
    ("a priority out of range", a_topic(priority=10), "priority"),
    ("a Topic without queue", a_topic(queueRef=None), "queueRef"),
    (
        "a number as the value of a variable",
        a_task_queue(workers=workers(env=[{"name": "PORT", "value": 8080}])),
        "value",
    ),
    ("workers without image", a_task_queue(workers={"app": "a:b"}), "image"),
)
