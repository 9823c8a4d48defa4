"""Manifests read without an API server: the same rules with the same words, and complaints that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from millgate_operator.errors import InvalidSpec
from millgate_operator.spec import TaskQueue, Topic, parse
from support.manifests import MALFORMED, WRONG, Wrong, a_task_queue, a_topic, workers


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_what_the_server_refuses_is_refused_here_with_the_same_words(wrong: Wrong) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse(wrong.manifest, strict=True)
    assert wrong.words in str(refusal.value)


@pytest.mark.parametrize(
    ("what", "manifest", "words"), MALFORMED, ids=[what for what, _, _ in MALFORMED]
)
def test_a_malformed_manifest_is_refused_naming_the_field(
    what: str, manifest: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse(manifest, strict=True)
    assert words in str(refusal.value)


def test_every_complaint_is_told_at_once() -> None:
    manifest = a_task_queue(
        wrokers={},
        workers=workers(
            app="x", drainTimeout="soon", memory={"maxRSS": "40%", "hardMaxRSS": "30%"}
        ),
    )
    with pytest.raises(InvalidSpec) as refusal:
        parse(manifest, strict=True)
    complaints = str(refusal.value).split("; spec")
    assert len(complaints) == 4
    for words in (
        "spec.workers.drainTimeout: 'soon' does not fit; write a duration like 90s",
        "spec.wrokers: no such field; see `kubectl explain`",
    ):
        assert words in str(refusal.value)


def test_unknown_fields_are_passed_over_when_the_server_has_let_them_through() -> None:
    manifest = a_task_queue(
        newField={"a": 1}, workers=workers(newer=True, autoscaling={"max": 3, "newest": "x"})
    )
    read = parse(manifest)
    assert isinstance(read, TaskQueue)
    assert read.spec.workers is not None
    assert read.spec.workers.autoscaling is not None
    assert read.spec.workers.autoscaling.max == 3


def test_an_unknown_field_beside_a_real_mistake_is_still_a_mistake() -> None:
    with pytest.raises(InvalidSpec, match="maxRSS"):
        parse(a_task_queue(newField=1, workers=workers(memory={"maxRSS": "lots"})))


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"apiVersion": "v1", "kind": "TaskQueue"}, "write apiVersion: millgate.dev/v1alpha1"),
        (a_topic() | {"kind": "Queue"}, "write kind: TaskQueue or kind: Topic"),
        (a_topic() | {"metadata": {}}, "metadata.name is missing"),
        (a_topic() | {"spec": None}, "spec is missing"),
    ],
)
def test_the_head_of_a_manifest_is_checked_first(manifest: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec, match=words):
        parse(manifest)


def test_metadata_is_read_once() -> None:
    manifest = a_topic("inv", topicName="invoices.new")
    manifest["metadata"] |= {
        "namespace": "shop",
        "uid": "u1",
        "generation": 4,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "annotations": {"a": "b"},
    }
    topic = parse(manifest)
    assert isinstance(topic, Topic)
    assert topic.name == "invoices.new"
    assert (topic.meta.namespace, topic.meta.uid, topic.meta.generation) == ("shop", "u1", 4)
    assert topic.meta.deleting
    assert topic.meta.annotations == {"a": "b"}


def test_a_topic_is_called_like_its_object_unless_it_says_otherwise() -> None:
    topic = parse(a_topic("invoices"))
    assert isinstance(topic, Topic)
    assert topic.name == "invoices"


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, "Auto"),
        ({"replicas": 3}, "Manual"),
        ({"replicas": 3, "autoscaling": {"mode": "Manual"}}, "Manual"),
        ({"autoscaling": {"max": 5}}, "Auto"),
        ({"autoscaling": {"mode": "External"}}, "External"),
    ],
)
def test_a_fixed_number_means_manual(fields: dict[str, Any], mode: str) -> None:
    read = parse(a_task_queue(workers=workers(**fields)))
    assert isinstance(read, TaskQueue)
    assert read.spec.workers is not None
    assert read.spec.workers.mode == mode


def test_a_namespace_too_long_for_the_name_on_the_broker_asks_for_a_prefix() -> None:
    manifest = a_task_queue("q" * 20)
    manifest["metadata"]["namespace"] = "n" * 50
    with pytest.raises(InvalidSpec, match=r"spec\.broker\.prefix: .* at most 63 characters"):
        parse(manifest)
    manifest["spec"]["broker"]["prefix"] = "short"
    assert isinstance(parse(manifest), TaskQueue)
