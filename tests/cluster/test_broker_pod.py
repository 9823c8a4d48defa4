"""The pod of a Local broker on a real node, where the API server alone would take anything."""

from __future__ import annotations

from typing import Any

from millgate_operator.desired.brokerd import key_secret, stateful_set
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import parse_task_queue
from node.cluster import Cluster
from support.manifests import a_task_queue
from support.wait import eventually


def of_nobody(made: dict[str, Any]) -> dict[str, Any]:
    """The object without its owner, who is not there."""
    del made["metadata"]["ownerReferences"]
    return made


def test_a_pod_that_finds_no_node_is_replaced_when_its_requests_are_mended(
    cluster: Cluster, namespace: str
) -> None:
    def apply(cpu: str) -> None:
        local = {"resources": {"requests": {"cpu": cpu}}}
        manifest = a_task_queue(broker={"type": "Local", "local": local})
        manifest["metadata"] |= {"namespace": namespace, "uid": "u"}
        queue = parse_task_queue(manifest)
        made = stateful_set(queue, OperatorSettings(broker_image="localhost/pause:1"))
        cluster.apply(of_nobody(key_secret(queue, b"key")), of_nobody(made), namespace=namespace)

    def pod() -> dict[str, Any]:
        found = cluster.get("pod", "hello-broker-0", namespace)
        assert found is not None
        return found

    apply("1000")
    eventually(lambda: pod()["status"]["conditions"][0]["reason"] == "Unschedulable", 30)
    apply("10m")

    def placed() -> bool:
        [container] = pod()["spec"]["containers"]
        return container["resources"]["requests"]["cpu"] == "10m" and "nodeName" in pod()["spec"]

    eventually(placed, 30)
