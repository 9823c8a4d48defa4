"""The resource definitions on a real API server: what is taken, what is refused and with which words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from node.command import CommandFailed
from node.local import LocalCluster
from support.manifests import MALFORMED, WRONG, Wrong, a_task_queue, a_topic, workers


@pytest.fixture(scope="module")
def namespace(server: LocalCluster) -> Iterator[str]:
    with server.namespace() as name:
        yield name


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_a_wrong_manifest_is_refused_with_words_that_help(
    server: LocalCluster, namespace: str, wrong: Wrong
) -> None:
    refusal = server.refusal(wrong.manifest, namespace=namespace)
    assert refusal is not None
    assert wrong.words in refusal


@pytest.mark.parametrize(("what", "manifest", "words"), MALFORMED)
def test_a_malformed_manifest_is_refused_naming_the_field(
    server: LocalCluster, namespace: str, what: str, manifest: dict[str, Any], words: str
) -> None:
    refusal = server.refusal(manifest, namespace=namespace)
    assert refusal is not None
    assert words in refusal


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"broker": {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}},
            "broker.type cannot",
        ),
        ({"broker": {"prefix": "other"}}, "broker.prefix cannot"),
        ({"broker": {"local": {"storage": {"size": "2Gi"}}}}, "broker.local.storage cannot"),
    ],
)
def test_what_cannot_be_changed_says_so(
    server: LocalCluster, namespace: str, change: dict[str, Any], words: str
) -> None:
    server.apply(a_task_queue("fixed"), namespace=namespace)
    changed = a_task_queue("fixed")
    changed["spec"]["broker"] |= change["broker"]
    refusal = server.refusal(changed, namespace=namespace)
    assert refusal is not None
    assert words in refusal


def test_a_topic_stays_with_its_queue_and_its_name(server: LocalCluster, namespace: str) -> None:
    server.apply(a_topic("stays"), namespace=namespace)
    moved = server.refusal(a_topic("stays", queue="other"), namespace=namespace)
    named = server.refusal(a_topic("stays", topicName="x"), namespace=namespace)
    assert moved is not None
    assert named is not None
    assert "queueRef cannot be changed" in moved
    assert "topicName cannot be changed" in named


def test_fifteen_lines_are_enough_and_defaults_are_filled_in(
    server: LocalCluster, namespace: str
) -> None:
    server.apply(a_task_queue("small"), namespace=namespace)
    made = server.get("taskqueue", "small", namespace)
    assert made is not None
    spec = made["spec"]
    assert spec["workers"]["children"] == 2
    assert spec["workers"]["slots"] == 1
    assert spec["workers"]["drainTimeout"] == "10m"
    assert (spec["suspend"], spec["undeclaredTopics"]) == ("None", "Allow")


def test_nothing_is_filled_into_a_topic_so_that_the_queues_defaults_can_apply(
    server: LocalCluster, namespace: str
) -> None:
    server.apply(a_topic("bare", concurrency={}, retry={"backoff": {}}), namespace=namespace)
    made = server.get("topic", "bare", namespace)
    assert made is not None
    assert made["spec"] == {
        "queueRef": {"name": "hello"}, "concurrency": {}, "retry": {"backoff": {}}
    }  # fmt: skip


def test_pod_fields_that_only_kubernetes_knows_are_kept(
    server: LocalCluster, namespace: str
) -> None:
    template = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {"nodeSelector": {"gpu": "yes"}, "containers": [{"name": "worker", "tty": True}]},
    }
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    resources = {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}}
    manifest = a_task_queue(
        "open", workers=workers(template=template, env=env, resources=resources)
    )
    server.apply(manifest, namespace=namespace)
    made = server.get("taskqueue", "open", namespace)
    assert made is not None
    kept = made["spec"]["workers"]
    assert (kept["template"], kept["env"], kept["resources"]) == (template, env, resources)


@pytest.mark.parametrize(
    "field",
    [
        "broker",
        "broker.connection.secretRef",
        "broker.rabbitmq",
        "workers",
        "workers.autoscaling",
        "workers.memory",
    ],
)
def test_explain_says_something_about_every_field(server: LocalCluster, field: str) -> None:
    text = server.kubectl("explain", f"taskqueue.spec.{field}")
    assert "<no description>" not in text
    assert "DESCRIPTION" in text


def test_columns_and_short_names_are_there(server: LocalCluster, namespace: str) -> None:
    server.apply(a_task_queue("listed"), a_topic("listed"), namespace=namespace)
    queues = server.kubectl("get", "tq", "-n", namespace)
    topics = server.kubectl("get", "tqt", "-n", namespace)
    for column in ("BROKER", "READY", "STATUS", "WORKERS", "DESIRED", "QUEUED", "AGE"):
        assert column in queues
    for column in ("QUEUE", "PRI", "LIMIT", "READY", "STATUS"):
        assert column in topics
    assert "listed" in server.kubectl("get", "millgate", "-n", namespace)
    chosen = server.kubectl(
        "get", "tqt", "-n", namespace, "--field-selector=spec.queueRef.name=hello", "-o", "name"
    )
    assert "topic.millgate.dev/listed" in chosen


def test_scale_sets_a_fixed_number_of_pods(server: LocalCluster, namespace: str) -> None:
    server.apply(a_task_queue("scaled"), namespace=namespace)
    server.kubectl("scale", "taskqueue/scaled", "-n", namespace, "--replicas=3")
    made = server.get("taskqueue", "scaled", namespace)
    assert made is not None
    assert made["spec"]["workers"]["replicas"] == 3


def test_scale_is_refused_where_the_autoscaler_decides(
    server: LocalCluster, namespace: str
) -> None:
    manifest = a_task_queue("auto", workers=workers(autoscaling={"mode": "Auto", "max": 5}))
    server.apply(manifest, namespace=namespace)
    with pytest.raises(CommandFailed) as refused:
        server.kubectl("scale", "taskqueue/auto", "-n", namespace, "--replicas=3")
    assert "set autoscaling.mode: Manual" in refused.value.stderr
