"""What a user reads when a manifest cannot work, and what stays when Millgate goes."""

from __future__ import annotations

from typing import Any

import pytest

from node.cluster import Cluster
from support.install import Installed


def changed(manifest: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The manifest with one field set."""
    copy: dict[str, Any] = {**manifest, "spec": {**manifest["spec"]}}
    at = copy["spec"]
    *parents, last = path.split(".")
    for name in parents:
        at[name] = {**at.get(name, {})}
        at = at[name]
    at[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("broker.type", "Postgres", "connection"),
        ("workers.memory.maxRSS", "300Mi", "must be below hardMaxRSS"),
        ("workers.autoscaling", {"min": 5, "max": 2}, "min must not be above max"),
        ("workers.topics", {"ordered": True}, "ordered needs include"),
    ],
)
def test_a_manifest_that_cannot_work_is_refused_in_words(
    cluster: Cluster,
    installed: Installed,
    place: str,
    readme_queue: dict[str, Any],
    path: str,
    value: object,
    words: str,
) -> None:
    refusal = cluster.refusal(changed(readme_queue, path, value), namespace=place)
    assert refusal is not None
    assert words in refusal


def test_explain_reads_well(cluster: Cluster, installed: Installed) -> None:
    text = cluster.kubectl("explain", "taskqueue.spec.broker")
    assert "Where the tasks are." in text
    assert "the operator runs a broker pod" in text
    assert "type\t<string> -required-" in text


def test_helm_test_runs_a_real_task(cluster: Cluster, installed: Installed) -> None:
    assert "Succeeded" in cluster.helm("test", "millgate", "-n", "millgate-system", timeout=200)


def test_uninstalling_leaves_definitions_and_resources(
    cluster: Cluster, installed: Installed, place: str, readme_queue: dict[str, Any]
) -> None:
    cluster.apply(readme_queue, namespace=place)
    installed.wait_for("taskqueue", "hello", place)
    installed.uninstall()
    try:
        assert cluster.get("taskqueue", "hello", place) is not None
        assert cluster.get("crd", "taskqueues.millgate.dev") is not None
        assert cluster.get("deployment", "hello-workers", place) is not None
    finally:
        installed.install()  # over the definitions that were kept; other tests go on with it
    installed.wait_for("taskqueue", "hello", place)
