"""A TaskQueue on RabbitMQ: what is made beside the workers, and what is said until somebody serves the queue."""

from __future__ import annotations

import copy
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.manifests import a_task_queue, a_topic, workers
from support.operator import Place
from support.rabbitmq import Brokerd, open_queue
from support.wait import eventually


@pytest.fixture
def queue(place: Place) -> Place:
    """A namespace with a Secret `rabbit` that leads to a RabbitMQ."""
    place.secret("rabbit", uri=servers.rabbitmq().url)
    return place


@pytest.fixture
def brokerd(queue: Place, tmp_path: Path) -> Iterator[Brokerd]:
    """A process in place of the pods, which nobody runs here."""
    made = Brokerd(f"{queue.namespace}.hello", tmp_path / "brokerd.log")
    yield made
    made.close()


def on_rabbitmq(**spec: Any) -> dict[str, Any]:
    broker = {"type": "RabbitMQ", "connection": {"secretRef": {"name": "rabbit"}}}
    return a_task_queue(**({"broker": broker} | spec))


def test_brokerd_is_made_beside_the_workers_and_goes_with_its_queue(queue: Place) -> None:
    queue.apply(on_rabbitmq())
    owner = queue.there("taskqueue", "hello")["metadata"]["uid"]
    for kind in ("deployment", "poddisruptionbudget", "networkpolicy"):
        made = queue.there(kind, "hello-broker")
        assert made["metadata"]["ownerReferences"][0]["uid"] == owner
    assert queue.there("deployment", "hello-broker")["spec"]["replicas"] == 2
    assert queue.get("statefulset", "hello-broker") is None
    assert queue.get("secret", "hello-broker") is None
    data = queue.there("configmap", "hello-workers")["data"]
    assert data["MILLGATE_BROKERD"] == "never"
    assert servers.rabbitmq().url not in json.dumps(data)


def test_its_pods_pass_the_strictest_pod_security(queue: Place) -> None:
    queue.apply(on_rabbitmq())
    template = queue.there("deployment", "hello-broker")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": template["spec"]}
    with queue.cluster.namespace(pod_security="restricted") as strict:
        assert queue.cluster.refusal(copy.deepcopy(pod), namespace=strict) is None


def test_a_queue_that_nobody_serves_yet_says_what_is_missing_and_heals(
    queue: Place, tmp_path: Path
) -> None:
    queue.apply(on_rabbitmq())
    queue.becomes("taskqueue", "hello", "BrokerConnected", "False/Unreachable", 15)

    def told() -> bool:
        message = queue.condition("taskqueue", "hello", "BrokerConnected")[2]
        return "of brokerd's Deployment hello-broker, 0 of 2 are ready" in message

    eventually(told, 15)
    assert queue.condition("taskqueue", "hello", "Stalled")[0] == "", "nobody has to do anything"
    brokerd = Brokerd(f"{queue.namespace}.hello", tmp_path / "brokerd.log")
    try:
        queue.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected", 30)
        status = queue.there("taskqueue", "hello")["status"]["broker"]
        assert status["type"] == "RabbitMQ"
        assert status["serverVersion"].startswith(("3.", "4."))
        assert status["schemaVersion"] >= 1
        assert status["brokerd"] == socket.gethostname()
        assert "guest:guest" not in json.dumps(queue.there("taskqueue", "hello"))
    finally:
        brokerd.close()


def test_topics_and_their_changes_reach_the_queue(queue: Place, brokerd: Brokerd) -> None:
    queue.apply(on_rabbitmq(workers=workers(replicas=0)), a_topic(priority=8))
    queue.becomes("topic", "invoices", "Ready", "True/Ready", 30)
    broker = open_queue(brokerd.queue)
    try:
        assert broker.configuration().topics["invoices"].priority == 8
        queue.patch("topic", "invoices", {"spec": {"concurrency": {"limit": 5}}})
        eventually(lambda: broker.configuration().topics["invoices"].limit == 5, 10)
    finally:
        broker.close()


def test_the_number_of_brokerds_is_the_manifests_and_not_the_autoscalers(
    queue: Place, brokerd: Brokerd
) -> None:
    queue.apply(on_rabbitmq(workers=workers(autoscaling={"min": 0, "max": 5})))
    queue.becomes("taskqueue", "hello", "Ready", "True/Ready", 30)
    assert queue.there("deployment", "hello-workers")["spec"]["replicas"] == 0

    def replicas() -> int:
        return int(queue.there("deployment", "hello-broker")["spec"]["replicas"])

    assert replicas() == 2, "a pool at zero leaves those who serve its queue"
    queue.kubectl("scale", "deployment/hello-broker", "--replicas=0")
    eventually(lambda: replicas() == 2, 10)
    queue.patch("taskqueue", "hello", {"spec": {"broker": {"rabbitmq": {"replicas": 1}}}})
    eventually(lambda: replicas() == 1, 10)
    eventually(lambda: queue.get("poddisruptionbudget", "hello-broker") is None, 10)


def test_a_changed_secret_replaces_brokerd_and_a_lost_one_does_not(queue: Place) -> None:
    queue.apply(on_rabbitmq())

    def version() -> str:
        template = queue.there("deployment", "hello-broker")["spec"]["template"]
        return str(template["metadata"]["annotations"]["millgate.dev/config"])

    first = version()
    assert first == queue.there("secret", "rabbit")["metadata"]["resourceVersion"]
    queue.kubectl("delete", "secret", "rabbit")
    queue.kubectl("annotate", "taskqueue", "hello", "look=again")
    queue.becomes("taskqueue", "hello", "BrokerConnected", "False/SecretMissing", 15)
    assert version() == first
    queue.secret("rabbit", uri=servers.rabbitmq().url + "?heartbeat=20")
    eventually(lambda: version() != first, 15)
    assert version() == queue.there("secret", "rabbit")["metadata"]["resourceVersion"]


def test_wrong_credentials_are_said_and_not_shown(place: Place) -> None:
    url = servers.rabbitmq().url.replace("guest:guest", "guest:hunter2")
    place.secret("rabbit", uri=url)
    place.apply(on_rabbitmq())
    message, _ = place.becomes("taskqueue", "hello", "Ready", "False/AuthFailed", 10)
    assert "hunter2" not in message
    place.secret("rabbit", uri="postgresql://u:hunter2@db/x")
    message, _ = place.becomes("taskqueue", "hello", "Ready", "False/SecretInvalid", 15)
    assert "write amqp://user:password@host/vhost" in message
    assert "hunter2" not in message


def test_what_waits_goes_with_the_queue_where_the_manifest_says_so(
    queue: Place, brokerd: Brokerd
) -> None:
    from support.builders import some_messages

    queue.apply(on_rabbitmq(workers=workers(replicas=0), deletionPolicy="Delete"))
    queue.becomes("taskqueue", "hello", "Ready", "True/Ready", 30)
    broker = open_queue(brokerd.queue)
    try:
        broker.publish(some_messages(7))
        queue.kubectl("delete", "taskqueue", "hello", "--timeout=20s")
        assert sum(topic.waiting or 0 for topic in broker.stats().topics.values()) == 0
    finally:
        broker.close()
