"""The operator as a process against a real API server: what it makes, mends, takes away and leaves alone."""

from __future__ import annotations

import copy
import json
import time

import pytest

from millgate_operator.names import AUTOSCALER, MANAGER
from support.manifests import a_task_queue, a_topic, workers
from support.operator import Operator, Place
from support.postgres import database_url, open_queue
from support.wait import eventually


@pytest.fixture
def queue(place: Place) -> Place:
    """A namespace with a Secret `db` that leads to a PostgreSQL."""
    place.secret("db", uri=database_url())
    return place


def on_postgres(name: str = "hello", **spec: object) -> dict:
    broker = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}
    return a_task_queue(name, **({"broker": broker} | spec))


def test_one_manifest_makes_everything_that_workers_need(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected")
    owner = queue.there("taskqueue", "hello")["metadata"]["uid"]
    for kind in (
        "deployment",
        "configmap",
        "serviceaccount",
        "poddisruptionbudget",
        "networkpolicy",
    ):
        made = queue.there(kind, "hello-workers")
        assert made["metadata"]["ownerReferences"][0]["uid"] == owner
    assert queue.get("statefulset", "hello-broker") is None
    data = queue.there("configmap", "hello-workers")["data"]
    assert data["MILLGATE_BROKER_FILE"] == "/etc/millgate/broker/uri"
    assert data["MILLGATE_QUEUE"] == f"{queue.namespace}.hello"
    assert database_url() not in json.dumps(data)


def test_a_local_broker_is_a_pod_with_a_key_a_service_and_the_volume_asked_for(
    place: Place,
) -> None:
    place.apply(a_task_queue(broker={"type": "Local", "local": {"storage": {"size": "2Gi"}}}))
    made = place.there("statefulset", "hello-broker")
    claim = made["spec"]["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert place.there("service", "hello-broker")["spec"]["ports"][0]["port"] == 7411
    assert place.there("networkpolicy", "hello-broker")
    key = place.there("secret", "hello-broker")["data"]["key"]
    message, _ = place.becomes("taskqueue", "hello", "BrokerConnected", "False/Unreachable", 15)
    assert "hello-broker" in message
    place.kubectl("annotate", "taskqueue", "hello", "look=again")
    time.sleep(1.5)
    assert place.there("secret", "hello-broker")["data"]["key"] == key
    assert place.condition("taskqueue", "hello", "DevelopmentBroker")[0] == "True"


def test_the_pods_pass_the_strictest_pod_security(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.apply(a_task_queue("small"))
    with queue.cluster.namespace(pod_security="restricted") as strict:
        queue.cluster.kubectl(
            "create", "serviceaccount", "hello-workers", "-n", strict, "--dry-run=none"
        )
        for kind, name in (("deployment", "hello-workers"), ("statefulset", "small-broker")):
            template = queue.there(kind, name)["spec"]["template"]
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": template["spec"],
            }
            pod = copy.deepcopy(pod)
            pod["spec"].pop("serviceAccountName", None)
            pod["spec"].pop("serviceAccount", None)
            assert queue.cluster.refusal(pod, namespace=strict) is None


def test_a_topic_reaches_the_broker_and_the_deployment_stays_as_it_is(queue: Place) -> None:
    queue.apply(on_postgres(defaults={"retry": {"maxAttempts": 7}}), a_topic(priority=8))
    queue.becomes("topic", "invoices", "Programmed", "True/Programmed")
    broker = open_queue(f"{queue.namespace}.hello")
    try:
        held = broker.configuration().topics["invoices"]
        assert (held.priority, held.retry.attempts) == (8, 7)
        before = queue.there("deployment", "hello-workers")["metadata"]["generation"]
        queue.patch("topic", "invoices", {"spec": {"concurrency": {"limit": 5}}})
        eventually(lambda: broker.configuration().topics["invoices"].limit == 5, 10)
        assert queue.there("deployment", "hello-workers")["metadata"]["generation"] == before
        effective = eventually(
            lambda: queue.there("topic", "invoices")["status"]["effective"].get("limit"), 10
        )
        assert effective == 5
        queue.kubectl("delete", "topic", "invoices")
        eventually(lambda: "invoices" not in broker.configuration().topics, 10)
    finally:
        broker.close()


def test_the_limits_of_the_queue_reach_the_broker(queue: Place) -> None:
    queue.apply(on_postgres(limits={"maxInFlight": 9}, undeclaredTopics="Reject", suspend="Hold"))
    queue.becomes("taskqueue", "hello", "Ready", "False/Suspended")
    broker = open_queue(f"{queue.namespace}.hello")
    try:
        held = broker.configuration().queue
        assert (held.limit, held.undeclared, held.suspended) == (9, "Reject", True)
    finally:
        broker.close()


def test_what_somebody_changes_by_hand_is_put_back(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.there("deployment", "hello-workers")
    queue.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected")
    container = {"name": "worker", "image": "evil.example/x:1"}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    queue.kubectl("patch", "deployment", "hello-workers", "-p", json.dumps(patch))
    queue.kubectl("delete", "configmap", "hello-workers")

    def image() -> str:
        made = queue.there("deployment", "hello-workers")
        return made["spec"]["template"]["spec"]["containers"][0]["image"]

    eventually(lambda: image() == "registry.example/hello:1", 10)
    queue.there("configmap", "hello-workers")


def test_what_others_add_to_our_objects_stays(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.there("deployment", "hello-workers")
    queue.kubectl("label", "deployment", "hello-workers", "team=billing")
    queue.patch("taskqueue", "hello", {"spec": {"workers": {"image": "registry.example/hello:2"}}})

    def changed() -> bool:
        made = queue.there("deployment", "hello-workers")
        image = made["spec"]["template"]["spec"]["containers"][0]["image"]
        return image.endswith(":2") and made["metadata"]["labels"]["team"] == "billing"

    eventually(changed, 10)


def test_a_label_on_the_queue_starts_no_pod_again(queue: Place) -> None:
    queue.apply(on_postgres())
    before = queue.there("deployment", "hello-workers")["metadata"]["generation"]
    queue.kubectl("label", "taskqueue", "hello", "team=billing")
    queue.kubectl("annotate", "taskqueue", "hello", "note=x")
    time.sleep(2)
    assert queue.there("deployment", "hello-workers")["metadata"]["generation"] == before


def test_workers_that_are_not_wanted_any_more_go_and_strangers_stay(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.there("deployment", "hello-workers")
    labels = queue.there("configmap", "hello-workers")["metadata"]["labels"]
    stranger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mine", "labels": labels},
    }
    queue.apply(stranger)
    queue.patch("taskqueue", "hello", {"spec": {"workers": None}})
    for kind in (
        "deployment",
        "configmap",
        "serviceaccount",
        "poddisruptionbudget",
        "networkpolicy",
    ):
        eventually(lambda kind=kind: queue.get(kind, "hello-workers") is None, 10)
    assert queue.get("configmap", "mine") is not None


def test_an_overlay_is_merged_and_one_that_cannot_work_is_explained(queue: Place) -> None:
    template = {
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [{"name": "worker", "tty": True}, {"name": "side", "image": "side:1"}],
        }
    }
    queue.apply(on_postgres(workers=workers(template=template)))
    pod = queue.there("deployment", "hello-workers")["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disk": "fast"}
    assert [one["name"] for one in pod["containers"]] == ["worker", "side"]
    assert pod["containers"][0]["tty"]
    assert pod["containers"][0]["image"] == "registry.example/hello:1"
    template["spec"]["terminationGracePeriodSeconds"] = 60
    queue.apply(on_postgres(workers=workers(template=template)))
    message, _ = queue.becomes("taskqueue", "hello", "Ready", "False/InvalidTemplate")
    assert "terminationGracePeriodSeconds is 60" in message
    assert "needs 630" in message
    template["spec"]["terminationGracePeriodSeconds"] = 700
    template["spec"]["containers"][1]["image"] = ""
    queue.apply(on_postgres(workers=workers(template=template)))
    eventually(lambda: "image" in queue.condition("taskqueue", "hello", "Ready")[2], 10)
    assert queue.condition("taskqueue", "hello", "Stalled")[:2] == ("True", "InvalidTemplate")
    del template["spec"]["containers"][1]
    queue.apply(on_postgres(workers=workers(template=template)))
    eventually(lambda: queue.condition("taskqueue", "hello", "Stalled")[0] == "", 10)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodeSelector": "fast"}, "nodeSelector"),
        ({"containers": [{"name": "worker", "env": [{"name": "A"}, {"name": "A"}]}]}, "duplicate"),
    ],
)
def test_an_overlay_that_no_pod_can_have_needs_somebody(
    queue: Place, spec: dict[str, object], words: str
) -> None:
    """The API server calls it an error of its own, which would be worth another try."""
    queue.apply(on_postgres(workers=workers(template={"spec": spec})))
    message, _ = queue.becomes("taskqueue", "hello", "Stalled", "True/InvalidTemplate")
    assert words in message


def test_nobodys_objects_carry_traces_of_the_machinery(queue: Place) -> None:
    queue.apply(on_postgres(), a_topic())
    queue.becomes("topic", "invoices", "Ready", "True/Ready")
    for kind, name in (
        ("taskqueue", "hello"), ("topic", "invoices"), ("deployment", "hello-workers"), ("configmap", "hello-workers")
    ):  # fmt: skip
        meta = queue.there(kind, name)["metadata"]
        assert "finalizers" not in meta
        assert "kopf" not in json.dumps(meta.get("annotations", {}))


def test_once_all_is_well_nothing_is_written(queue: Place, operator: Operator) -> None:
    queue.apply(on_postgres(workers=workers(replicas=0)), a_topic())
    queue.becomes("topic", "invoices", "Ready", "True/Ready")
    queue.becomes("taskqueue", "hello", "Ready", "True/Ready")
    kinds = (
        ("taskqueue", "hello"),
        ("topic", "invoices"),
        ("deployment", "hello-workers"),
        ("configmap", "hello-workers"),
    )

    def versions() -> list[str]:
        return [queue.there(kind, name)["metadata"]["resourceVersion"] for kind, name in kinds]

    time.sleep(2)
    before = versions()
    time.sleep(6)
    assert versions() == before


def test_replicas_have_one_owner_and_it_is_not_the_one_of_the_rest(queue: Place) -> None:
    queue.apply(on_postgres(workers=workers(replicas=2)))
    queue.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected")

    def owners() -> set[str]:
        made = queue.kubectl(
            "get", "deployment", "hello-workers", "-o", "json", "--show-managed-fields"
        )
        fields = json.loads(made)["metadata"]["managedFields"]
        return {
            entry["manager"]
            for entry in fields
            if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
        }

    eventually(lambda: owners() == {AUTOSCALER}, 10)
    assert queue.there("deployment", "hello-workers")["spec"]["replicas"] == 2
    assert MANAGER != AUTOSCALER


def test_a_new_pool_begins_at_its_minimum_and_never_with_a_pod_too_many(queue: Place) -> None:
    """A Deployment without replicas begins with one pod, which would be sent away again at once."""
    queue.apply(on_postgres())
    assert queue.there("deployment", "hello-workers")["spec"]["replicas"] == 0


def test_with_an_external_scaler_replicas_are_left_alone(queue: Place, operator: Operator) -> None:
    queue.apply(on_postgres(workers=workers(autoscaling={"mode": "External"})))
    queue.there("deployment", "hello-workers")
    queue.kubectl("scale", "deployment/hello-workers", "--replicas=7")
    queue.patch("taskqueue", "hello", {"spec": {"workers": {"image": "registry.example/hello:2"}}})
    time.sleep(3)
    made = queue.there("deployment", "hello-workers")
    assert made["spec"]["replicas"] == 7
    assert made["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":2")
    assert queue.condition("taskqueue", "hello", "AutoscalingActive")[:2] == ("False", "Disabled")
    series = f'millgate_pool_desired{{namespace="{queue.namespace}",queue="hello"}}'
    assert series in operator.page("/metrics"), "what Auto would do, for whoever scales"


def test_a_paused_queue_is_left_alone_until_it_is_not(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.there("deployment", "hello-workers")
    queue.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected")
    queue.kubectl("annotate", "taskqueue", "hello", "millgate.dev/reconcile=paused")
    queue.becomes("taskqueue", "hello", "ReconciliationPaused", "True/Annotation")
    assert queue.condition("taskqueue", "hello", "BrokerConnected")[0] == "True"
    queue.kubectl("delete", "configmap", "hello-workers")
    time.sleep(2)
    assert queue.get("configmap", "hello-workers") is None
    queue.kubectl("annotate", "taskqueue", "hello", "millgate.dev/reconcile-")
    queue.there("configmap", "hello-workers")
    eventually(lambda: queue.condition("taskqueue", "hello", "ReconciliationPaused")[0] == "", 10)
