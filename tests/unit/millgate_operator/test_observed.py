"""Pods and Deployments read into values, from what the kubelet and the controllers write."""

from __future__ import annotations

from typing import Any

import pytest

from millgate_operator.observed import WorkersView, pod_view, workers_view
from millgate_operator.scaling import pool

BORN = "2026-01-01T00:00:00Z"


def a_pod(state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": "side", "state": {"running": {}}}]
    if state is not None:
        containers.append({"name": "worker", "restartCount": 0} | state)
    return {
        "metadata": {"name": "p", "creationTimestamp": BORN},
        "status": {"phase": "Running", "containerStatuses": containers} | status,
    }


@pytest.mark.parametrize(
    ("state", "started", "trouble"),
    [
        (None, False, ""),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, False, ""),
        ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, False, "ImagePull"),
        ({"state": {"waiting": {"reason": "CreateContainerConfigError"}}}, False, "ConfigError"),
        ({"state": {"running": {}}}, True, ""),
        ({"state": {"terminated": {}}}, True, ""),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 1}, True, ""),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 3}},
                "restartCount": 4,
            },
            True,
            "CrashLooping",
        ),
    ],
)
def test_whether_a_pod_can_hold_work_and_what_ails_it(
    state: dict[str, Any] | None, started: bool, trouble: str
) -> None:
    view = pod_view(a_pod(state), "worker")
    assert (view.started, view.trouble) == (started, trouble)


def ended(after: int, code: int = 3) -> dict[str, Any]:
    at = f"2026-01-01T00:{after // 60:02d}:{after % 60:02d}Z"
    return {"terminated": {"exitCode": code, "startedAt": BORN, "finishedAt": at}}


@pytest.mark.parametrize(
    ("state", "trouble"),
    [
        ({"state": {"running": {}}, "lastState": ended(4), "ready": False}, "CrashLooping"),
        ({"state": {"terminated": {}}, "lastState": ended(4), "ready": False}, "CrashLooping"),
        ({"state": {"running": {}}, "lastState": ended(4), "ready": True}, ""),
        ({"state": {"running": {}}, "lastState": ended(600), "ready": False}, ""),
        ({"state": {"running": {}}, "lastState": ended(4, 0), "ready": False}, ""),
    ],
)
def test_a_crash_loop_is_one_also_between_two_waits(state: dict[str, Any], trouble: str) -> None:
    assert pod_view(a_pod(state | {"restartCount": 5}), "worker").trouble == trouble


def test_what_ails_another_container_of_the_pod_is_told_too() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    init = [{"name": "migrate", "state": {"waiting": waiting}}]
    starting = {"state": {"waiting": {"reason": "PodInitializing"}}}
    view = pod_view(a_pod(starting, initContainerStatuses=init), "worker")
    assert (view.trouble, view.detail) == ("ImagePull", "container migrate: no such image")
    assert not view.started


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (
            {"exitCode": 3, "message": "no module named hello\n"},
            "exit code 3, 4 restarts: no module named hello",
        ),
        ({"exitCode": 137, "reason": "OOMKilled"}, "killed, most likely for its memory limit"),
        ({"exitCode": 137, "reason": "Error"}, "killed, most likely for its memory limit"),
    ],
)
def test_the_last_words_of_a_crashing_container_are_told(last: dict[str, Any], words: str) -> None:
    state = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": last},
        "restartCount": 4,
    }
    assert words in pod_view(a_pod(state), "worker").detail


def test_a_pod_without_a_node_says_since_when_and_why() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": "2026-01-01T00:01:00Z",
        "message": "0/3 nodes are available",
    }
    view = pod_view(a_pod(conditions=[condition], containerStatuses=[]), "worker")
    assert view.unschedulable_since == 1767225660.0
    assert view.detail == "0/3 nodes are available"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_leaving(phase: str) -> None:
    assert pod_view(a_pod({"state": {"terminated": {}}}, phase=phase), "worker").terminating


def test_a_marked_pod_is_one_with_a_low_deletion_cost() -> None:
    pod = a_pod({"state": {"running": {}}})
    assert not pod_view(pod, "worker").marked
    pod["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-1000"}
    assert pod_view(pod, "worker").marked


def test_how_long_a_pod_took_to_start_is_measured_once() -> None:
    def took(at: str) -> float | None:
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": at}
        pod = pod_view(a_pod({"state": {"running": {}}}, conditions=[condition]), "worker")
        view = WorkersView(desired=1, pods=(pod,))
        return pool(view, 1767225600.0 + 7200).pods[0].start_took

    assert took("2026-01-01T00:00:21Z") == 21.0
    assert took("2026-01-01T01:00:00Z") is None, (
        "it became ready again, it did not start for an hour"
    )


@pytest.mark.parametrize(
    ("generation", "seen", "updated", "rollout"),
    [(3, 3, 4, False), (4, 3, 4, True), (3, 3, 1, True), (3, 3, 0, True)],
)
def test_a_rollout_is_seen_before_its_controller_sees_it(
    generation: int, seen: int, updated: int, rollout: bool
) -> None:
    deployment = {
        "metadata": {"generation": generation},
        "spec": {"replicas": 4},
        "status": {"observedGeneration": seen, "replicas": 4, "updatedReplicas": updated},
    }
    assert workers_view(deployment, []).rollout is rollout


def test_a_deployment_that_is_stuck_says_why() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    deployment = {"metadata": {}, "spec": {}, "status": {"conditions": [condition]}}
    assert workers_view(deployment, []).stuck == "exceeded quota"
