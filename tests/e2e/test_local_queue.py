"""The README's TaskQueue on a real cluster: from `kubectl apply` to 500 right answers, and away again."""

from __future__ import annotations

from typing import Any

from node.cluster import Cluster
from support.install import Installed, local
from support.wait import eventually

#: What a queue with a Local broker has in its namespace, and how it is known.
CHILDREN = ("deployment", "statefulset", "service", "configmap", "secret", "pods")
OURS = "millgate.dev/queue=hello"


def test_the_readmes_queue_answers_heals_and_goes_with_its_children(
    cluster: Cluster, installed: Installed, place: str, app_image: str, readme_queue: dict[str, Any]
) -> None:
    cluster.apply(readme_queue, namespace=place)
    installed.wait_for("taskqueue", "hello", place)
    assert installed.condition("taskqueue", "hello", place, "BrokerConnected")["status"] == "True"

    sender = installed.send(place, app_image, "greet", 500, local(place, "hello"))
    assert installed.answer(place, sender) == {"sent": 500, "right": 500, "app": True}

    before = cluster.get("deployment", "hello-workers", place)
    assert before is not None
    cluster.kubectl("delete", "deployment", "hello-workers", "-n", place)

    def is_back() -> bool:
        now = cluster.get("deployment", "hello-workers", place)
        return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]

    eventually(is_back, timeout=30)
    installed.wait_for("taskqueue", "hello", place)

    table = cluster.kubectl("get", "taskqueues", "-n", place)
    assert {"NAME", "BROKER", "READY"} <= set(table.splitlines()[0].split())

    for kind in CHILDREN:
        assert cluster.objects(kind, place, OURS), kind
    cluster.kubectl("delete", "taskqueue", "hello", "-n", place, "--wait=false")
    for kind in CHILDREN:
        eventually(
            lambda kind=kind: not cluster.objects(kind, place, OURS),
            timeout=240,  # a broker pod may take its 30 s of grace, on a busy node much more
            every=0.5,
        )


def test_the_readmes_topic_is_accepted_and_its_limits_hold(
    cluster: Cluster,
    installed: Installed,
    place: str,
    readme_queue: dict[str, Any],
    readme_topic: dict[str, Any],
) -> None:
    cluster.apply(readme_topic, namespace=place)  # before its queue: any order must do
    eventually(
        lambda: (
            installed.condition("topic", "invoices", place, "Accepted").get("reason")
            == "QueueNotFound"
        ),
        timeout=15,
    )
    cluster.apply(readme_queue, namespace=place)
    installed.wait_for("topic", "invoices", place)
    topic = cluster.get("topic", "invoices", place)
    assert topic is not None
    assert topic["status"]["effective"]["limit"] == 5
