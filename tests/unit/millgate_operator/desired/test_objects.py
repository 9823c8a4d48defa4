"""What is made for a queue: each object by the fields that matter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millgate.settings import WorkerSettings
from millgate_operator import names
from millgate_operator.desired import broker_objects, key_secret, worker_objects
from millgate_operator.errors import Blocked
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue, parse_task_queue
from support.manifests import a_task_queue, workers

SETTINGS = OperatorSettings(broker_image="r.example/operator:1")


def queue(**spec: Any) -> TaskQueue:
    manifest = a_task_queue(**spec)
    manifest["metadata"] |= {"namespace": "shop", "uid": "u-1"}
    return parse_task_queue(manifest)


def on_postgres(**spec: Any) -> TaskQueue:
    connection = {"secretRef": {"name": "db", "key": "url"}}
    return queue(broker={"type": "Postgres", "connection": connection}, **spec)


def made(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in objects}


def test_every_object_belongs_to_its_queue_and_says_so() -> None:
    one = queue()
    objects = [*worker_objects(one), *broker_objects(one, SETTINGS), key_secret(one, b"k")]
    assert len(objects) == 9
    for item in objects:
        meta = item["metadata"]
        assert meta["namespace"] == "shop"
        assert meta["labels"][names.LABEL_QUEUE] == "hello"
        assert meta["labels"][names.LABEL_MANAGED] == names.MANAGER
        [owner] = meta["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("u-1", True)


def test_the_deployment_leaves_replicas_to_whoever_scales() -> None:
    assert "replicas" not in made(worker_objects(queue()))["Deployment"]["spec"]


def test_the_selector_is_part_of_the_pods_labels_and_never_changes_with_the_spec() -> None:
    first = made(worker_objects(queue()))["Deployment"]["spec"]
    other = made(worker_objects(queue(workers=workers(image="y", children=9))))["Deployment"][
        "spec"
    ]
    assert first["selector"] == other["selector"]
    assert (
        first["selector"]["matchLabels"].items() <= first["template"]["metadata"]["labels"].items()
    )


def test_pods_are_confined() -> None:
    one = queue()
    pods = [
        made(worker_objects(one))["Deployment"]["spec"]["template"]["spec"],
        made(broker_objects(one, SETTINGS))["StatefulSet"]["spec"]["template"]["spec"],
    ]
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"name": "tmp", "emptyDir": {}} in pod["volumes"]


def test_a_pod_has_as_long_to_stop_as_its_tasks_have_to_end() -> None:
    pod = made(worker_objects(queue(workers=workers(drainTimeout="1h"))))["Deployment"]
    assert pod["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 3630


def test_the_worker_reads_what_the_manifest_says() -> None:
    objects = made(
        worker_objects(on_postgres(workers=workers(children=3, memory={"maxRSS": "30%"})))
    )
    settings = WorkerSettings.from_env(objects["ConfigMap"]["data"])
    assert (settings.children, str(settings.max_rss)) == (3, "30%")
    assert settings.broker_file == "/etc/millgate/broker/url"
    assert settings.queue == "shop.hello"
    assert settings.metrics == "0.0.0.0:8080"
    [container] = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    name = {"name": "MILLGATE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert name in container["env"]
    assert container["envFrom"][-1] == {"configMapRef": {"name": "hello-workers"}}


def test_the_secret_is_mounted_and_nowhere_copied() -> None:
    objects = worker_objects(on_postgres())
    pod = made(objects)["Deployment"]["spec"]["template"]["spec"]
    [volume] = [one for one in pod["volumes"] if one["name"] == "broker"]
    assert volume["secret"]["secretName"] == "db"
    assert "Secret" not in made(objects)


def test_a_changed_setting_starts_pods_again_and_a_changed_number_does_not() -> None:
    def template(**fields: Any) -> str:
        objects = made(worker_objects(queue(workers=workers(**fields))))
        return json.dumps(objects["Deployment"]["spec"]["template"])

    assert template() != template(children=5)
    assert template() == template(autoscaling={"max": 3})
    assert template() == template(replicas=7)


def test_a_local_broker_is_served_from_the_operators_image_with_the_queues_key() -> None:
    objects = made(broker_objects(queue(), SETTINGS))
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "r.example/operator:1"
    assert container["args"][:4] == ["--listen", "0.0.0.0:7411", "--key-file", names.KEY_FILE]
    data = made(worker_objects(queue()))["ConfigMap"]["data"]
    assert data["MILLGATE_BROKER"] == (
        "local://hello-broker.shop.svc:7411?key_file=/etc/millgate/local/key"
    )
    assert "volumeClaimTemplates" not in objects["StatefulSet"]["spec"]


def test_a_local_broker_keeps_its_volume_when_it_has_one() -> None:
    storage = {"storage": {"size": "2Gi", "storageClassName": "fast"}}
    spec = made(broker_objects(queue(broker={"type": "Local", "local": storage}), SETTINGS))[
        "StatefulSet"
    ]["spec"]
    [claim] = spec["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"


def test_other_brokers_need_no_pod() -> None:
    assert broker_objects(on_postgres(), SETTINGS) == []


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, "25%"),
        ({"disruption": {"maxUnavailable": 2}}, 2),
        ({"replicas": 1}, None),
        ({"replicas": 2}, "25%"),
        ({"autoscaling": {"max": 1}}, None),
    ],
)
def test_a_pool_of_one_pod_has_no_budget_that_would_block_its_node(
    fields: dict[str, Any], wanted: Any
) -> None:
    budget = made(worker_objects(queue(workers=workers(**fields)))).get("PodDisruptionBudget")
    assert (budget["spec"]["maxUnavailable"] if budget else None) == wanted
    if budget:
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_without_workers_there_are_no_objects_for_them() -> None:
    assert worker_objects(queue(workers=None)) == []


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ({"spec": {"terminationGracePeriodSeconds": 30}}, "needs 630"),
        ({"spec": {"restartPolicy": "Never"}}, "must be Always"),
        ({"metadata": {"labels": {names.LABEL_QUEUE: None}}}, "must leave"),
        ({"metadata": {"labels": {names.LABEL_COMPONENT: "x"}}}, "must leave"),
        ({"metadata": {"labels": {names.LABEL_QUEUE: "other"}}}, "must leave"),
        ({"metadata": {"labels": ["x"]}}, "must leave"),
        ({"metadata": "x"}, "must leave"),
        ({"spec": {"terminationGracePeriodSeconds": "700"}}, "needs 630"),
        (
            {
                "spec": {
                    "containers": [{"name": "worker", "envFrom": [{"secretRef": {"name": "x"}}]}]
                }
            },
            "workers.envFrom",
        ),
    ],
)
def test_an_overlay_that_takes_away_what_a_pool_lives_by_is_refused(
    overlay: dict[str, Any], words: str
) -> None:
    with pytest.raises(Blocked, match=words) as refusal:
        worker_objects(queue(workers=workers(template=overlay)))
    assert refusal.value.reason == "InvalidTemplate"


def test_an_overlay_with_nonsense_in_a_list_is_left_for_the_api_server_to_refuse() -> None:
    overlay = {"spec": {"volumes": ["data"], "containers": [{"name": "worker", "env": ["A=1"]}]}}
    pod = made(worker_objects(queue(workers=workers(template=overlay))))["Deployment"]["spec"][
        "template"
    ]["spec"]
    assert (pod["volumes"], pod["containers"][0]["env"]) == (["data"], ["A=1"])


def test_a_home_of_your_own_is_the_only_one() -> None:
    home = {"name": "HOME", "value": "/home/app"}
    made_by = made(worker_objects(queue(workers=workers(env=[home]))))["Deployment"]
    [container] = made_by["spec"]["template"]["spec"]["containers"]
    assert [one for one in container["env"] if one["name"] == "HOME"] == [home]


def test_names_stay_short_enough_for_the_pods_that_derive_from_them() -> None:
    longest = "q" * names.MAX_QUEUE_NAME
    assert len(names.workers(longest)) + len("-0123456789-01234") <= 66
    # A StatefulSet's, whose pods carry a hash of it as a label.
    assert len(names.brokerd(longest)) <= 52
