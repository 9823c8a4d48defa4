"""A TaskQueue on RabbitMQ in a pod: whoever serves it is deleted and killed under load, and no task notices."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import pytest

from node import services
from node.cluster import Cluster
from support.install import Installed, rabbitmq
from support.server_pods import ServerPod
from support.wait import eventually

PASSWORD = "rabbit-p4ss"
SERVER = ServerPod("rabbit", services.RABBITMQ, 5672, "RABBITMQ_PASSWORD", PASSWORD)
TASKS = 200


def uri(namespace: str) -> str:
    """The server's URL, good in every namespace."""
    return f"amqp://millgate:{PASSWORD}@rabbit.{namespace}.svc/%2F"


def a_queue(image: str) -> dict[str, Any]:
    return {
        "apiVersion": "millgate.dev/v1alpha1",
        "kind": "TaskQueue",
        "metadata": {"name": "counted"},
        "spec": {
            "broker": {"type": "RabbitMQ", "connection": {"secretRef": {"name": "rabbit"}}},
            "workers": {
                "image": image,
                "app": "counted.tasks:app",
                "children": 2,
                "drainTimeout": "30s",
                "replicas": 2,
            },
        },
    }


class Queue:
    """The TaskQueue, and what a test asks of it."""

    def __init__(self, cluster: Cluster, installed: Installed, place: str) -> None:
        self.cluster, self.installed, self.place = cluster, installed, place

    def brokerds(self) -> list[str]:
        """The pods of brokerd that are not on their way out, and ready."""
        selector = "millgate.dev/queue=counted,app.kubernetes.io/component=broker"
        return [
            pod["metadata"]["name"]
            for pod in self.cluster.objects("pods", self.place, selector)
            if "deletionTimestamp" not in pod["metadata"]
            and any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in pod["status"].get("conditions", ())
            )
        ]

    def server(self) -> str:
        """The one of them that serves the queue; empty when none does just now."""
        for name in self.brokerds():
            path = f"/api/v1/namespaces/{self.place}/pods/{name}:8080/proxy/status"
            if json.loads(self.cluster.kubectl("get", "--raw", path))["standing"] == "serving":
                return name
        return ""

    def status(self) -> dict[str, Any]:
        """What the operator says of the broker."""
        found = self.cluster.get("taskqueue", "counted", self.place)
        assert found is not None
        return dict(found["status"]["broker"])

    def runs(self) -> Counter[str]:
        """How often the workers' logs say that each task ran."""
        lines: list[str] = []
        for pod in self.installed.pods(self.place, "counted"):
            log = self.cluster.kubectl("logs", pod["metadata"]["name"], "-n", self.place)
            lines += [line for line in log.splitlines() if '"runs ' in line]
        return Counter(json.loads(line)["text"] for line in lines)

    def wait_for_runs(self, number: int) -> None:
        """Wait until so many tasks have run; tell everybody's last words when they do not."""
        try:
            eventually(lambda: len(self.runs()) >= number, timeout=90, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"only {len(self.runs())} ran: {self.last_words()}") from error

    def last_words(self) -> str:
        """The end of every pod's log."""
        names = [pod["metadata"]["name"] for pod in self.cluster.objects("pods", self.place, "")]
        logs = [self.cluster.kubectl("logs", name, "-n", self.place, "--tail=15") for name in names]
        return "\n".join(f"--- {name}\n{log}" for name, log in zip(names, logs, strict=True))


@pytest.fixture
def queue(cluster: Cluster, installed: Installed, place: str, app_image: str) -> Queue:
    """The TaskQueue, with workers that are ready."""
    archive = services.rabbitmq(lambda text: print(text, file=sys.stderr, flush=True))
    cluster.load(archive)
    cluster.apply(*SERVER.objects(uri(place)), namespace=place)
    cluster.apply(a_queue(app_image), namespace=place)
    cluster.kubectl("wait", "pod/rabbit", "-n", place, "--for=condition=Ready", "--timeout=120s")
    installed.wait_for("taskqueue", "counted", place, timeout=120)
    made = Queue(cluster, installed, place)
    eventually(lambda: len(made.brokerds()) == 2, timeout=60, every=0.5)
    return made


def test_brokerd_is_deleted_and_killed_under_load_and_every_task_runs_once(
    queue: Queue, app_image: str
) -> None:
    cluster, place = queue.cluster, queue.place
    broker = rabbitmq(place, "counted", uri(place))
    first = eventually(queue.server, timeout=30, every=0.5)
    sender = queue.installed.send(place, app_image, "counted", TASKS, broker)
    queue.wait_for_runs(20)

    cluster.kubectl("delete", "pod", str(first), "-n", place, "--wait=false")
    second = eventually(lambda: (name := queue.server()) != first and name, timeout=30, every=0.2)
    before = len(queue.runs())
    now = ("--grace-period=0", "--force")
    cluster.kubectl("delete", "pod", str(second), "-n", place, "--wait=false", *now)
    third = eventually(
        lambda: (name := queue.server()) not in (first, second) and name, timeout=60, every=0.2
    )
    after = len(queue.runs())
    assert before < TASKS, "the load was over before anybody was killed"

    answer = queue.installed.answer(place, sender)
    assert (answer["sent"], answer["right"]) == (TASKS, TASKS)
    assert queue.runs() == Counter({f"runs {number}": 1 for number in range(TASKS)})
    print(f"{first} served {before} of {TASKS}; {second} up to {after}; then {third}")


def test_a_pool_at_zero_keeps_its_brokerd_which_follows_the_secret_and_goes_with_the_queue(
    queue: Queue,
) -> None:
    cluster, place = queue.cluster, queue.place
    patch = {"spec": {"workers": {"replicas": 0}}}
    cluster.kubectl(
        *("patch", "taskqueue", "counted", "-n", place, "--type=merge", "-p", json.dumps(patch))
    )
    eventually(lambda: not queue.installed.pods(place, "counted"), timeout=90, every=0.5)
    first = set(queue.brokerds())
    assert len(first) == 2
    assert queue.status()["serverVersion"].startswith("4.")
    eventually(lambda: queue.status()["brokerd"] == queue.server(), timeout=60, every=0.5)

    changed = SERVER.objects(f"{uri(place)}?heartbeat=5")[-1]
    cluster.apply(changed, namespace=place)

    def replaced() -> bool:
        now = set(queue.brokerds())
        return len(now) == 2 and not now & first and queue.server() != ""

    eventually(replaced, timeout=120, every=0.5)
    eventually(lambda: queue.status()["brokerd"] == queue.server(), timeout=60, every=0.5)
    queue.installed.wait_for("taskqueue", "counted", place, "BrokerConnected")
    cluster.kubectl("delete", "taskqueue", "counted", "-n", place, "--timeout=30s")
    eventually(lambda: queue.brokerds() == [], timeout=60, every=0.5)
