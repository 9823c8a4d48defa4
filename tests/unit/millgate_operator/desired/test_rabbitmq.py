"""What is made for a queue on RabbitMQ: pods that own it, and workers that never do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millgate_operator import names
from millgate_operator.desired import broker_objects, worker_objects
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue, parse_task_queue
from support.manifests import a_task_queue

SETTINGS = OperatorSettings(broker_image="r.example/operator:1", broker_pull_policy="Always")


def on_rabbitmq(**section: Any) -> TaskQueue:
    broker: dict[str, Any] = {
        "type": "RabbitMQ",
        "connection": {"secretRef": {"name": "rabbit", "key": "url"}},
    }
    if section:
        broker["rabbitmq"] = section
    manifest = a_task_queue(broker=broker)
    manifest["metadata"] |= {"namespace": "shop", "uid": "u-1"}
    return parse_task_queue(manifest)


def made(version: str = "7", **section: Any) -> dict[str, dict[str, Any]]:
    objects = broker_objects(on_rabbitmq(**section), SETTINGS, version)
    return {item["kind"]: item for item in objects}


def container(**section: Any) -> dict[str, Any]:
    [one] = made(**section)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(one)


def test_two_pods_on_different_nodes_where_there_are_two() -> None:
    spec = made()["Deployment"]["spec"]
    assert spec["replicas"] == 2
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    [wish] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert (
        wish["podAffinityTerm"]["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    )
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert labels[names.LABEL_COMPONENT] == names.BROKER, "the autoscaler counts workers only"


def test_a_drain_takes_one_pod_at_a_time_and_a_lone_one_freely() -> None:
    assert made()["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert "PodDisruptionBudget" not in made(replicas=1)


@pytest.mark.parametrize(("replicas", "unavailable"), [(1, 0), (2, 1), (5, 1)])
def test_a_lone_pod_is_replaced_only_when_its_successor_stands_by(
    replicas: int, unavailable: int
) -> None:
    spec = made(replicas=replicas)["Deployment"]["spec"]
    assert spec["replicas"] == replicas
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": unavailable}


def test_the_url_comes_from_the_secret_and_stands_nowhere_else() -> None:
    one = container()
    assert one["command"] == ["millgate", "brokerd"]
    assert one["args"] == [
        *("--broker-file", "/etc/millgate/broker/url"),
        *("--queue", "shop.hello"),
        *("--metrics", "0.0.0.0:8080"),
    ]
    assert (one["image"], one["imagePullPolicy"]) == ("r.example/operator:1", "Always")
    volumes = made()["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "broker", "secret": {"secretName": "rabbit", "defaultMode": 0o440}} in volumes
    mounts = [mount for mount in one["volumeMounts"] if mount["name"] == "broker"]
    assert mounts == [{"name": "broker", "mountPath": "/etc/millgate/broker", "readOnly": True}]


def test_a_new_version_of_the_secret_replaces_the_pods_and_nothing_else_does() -> None:
    def template(version: str, **section: Any) -> Any:
        return made(version, **section)["Deployment"]["spec"]["template"]

    assert template("7") != template("8")
    assert template("7") == template("7", replicas=3)


def test_resources_are_small_unless_the_manifest_says_more() -> None:
    assert container()["resources"] == {"requests": {"cpu": "50m", "memory": "64Mi"}}
    wanted = {"limits": {"memory": "2Gi"}}
    assert container(resources=wanted)["resources"] == wanted


def test_the_pods_are_as_confined_as_all_others() -> None:
    pod = made()["Deployment"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    security = container()["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_nothing_reaches_them_but_probes_and_scrapers() -> None:
    spec = made()["NetworkPolicy"]["spec"]
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": 8080}]}]
    assert spec["podSelector"]["matchLabels"][names.LABEL_COMPONENT] == names.BROKER


def test_workers_read_the_same_secret_and_start_no_brokerd() -> None:
    objects = {item["kind"]: item for item in worker_objects(on_rabbitmq())}
    data = objects["ConfigMap"]["data"]
    assert data["MILLGATE_BROKER_FILE"] == "/etc/millgate/broker/url"
    assert data["MILLGATE_QUEUE"] == "shop.hello"
    assert data["MILLGATE_BROKERD"] == "never"
    assert "amqp" not in json.dumps(objects)


def test_other_brokers_hear_nothing_of_brokerd() -> None:
    local = a_task_queue()
    local["metadata"] |= {"namespace": "shop", "uid": "u-1"}
    objects = {item["kind"]: item for item in worker_objects(parse_task_queue(local))}
    assert "MILLGATE_BROKERD" not in objects["ConfigMap"]["data"]
