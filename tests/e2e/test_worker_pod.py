"""A worker in a real pod with little memory: what is too big ends alone, and the pod never notices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from node.cluster import Cluster
from support.install import Installed, local


def a_queue(image: str) -> dict[str, Any]:
    return {
        "apiVersion": "millgate.dev/v1alpha1",
        "kind": "TaskQueue",
        "metadata": {"name": "greedy"},
        "spec": {
            "broker": {"type": "Local"},
            "workers": {
                "image": image,
                "app": "greedy.tasks:app",
                "children": 3,
                "resources": {"limits": {"memory": "256Mi"}},
                "autoscaling": {"min": 1, "max": 1},
            },
        },
    }


#: How a tree ends that does not fit: stopped by the worker, or, if it was quicker, by the kernel.
STOPPED = {"PodBudget", "OOMKilled"}


class Pool:
    """The queue's only pod."""

    def __init__(self, cluster: Cluster, installed: Installed, place: str) -> None:
        self._cluster, self._installed, self._place = cluster, installed, place
        [pod] = installed.pods(place, "greedy")
        self.name = pod["metadata"]["name"]

    def run(self, image: str, kind: str, count: int) -> dict[str, Any]:
        """Send work and wait for its answers."""
        broker = local(self._place, "greedy")
        sender = self._installed.send(self._place, image, kind, count, broker)
        return self._installed.answer(self._place, sender)

    @property
    def restarts(self) -> int:
        """How often the kernel or the kubelet has ended the container; it must be the same pod still."""
        [pod] = self._installed.pods(self._place, "greedy")
        assert pod["metadata"]["name"] == self.name
        return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])

    def check(self) -> None:
        """It is the same container still, and children have ended for their memory only."""
        assert self.restarts == 0
        reasons = self.reasons()
        assert reasons
        assert reasons <= STOPPED

    def reasons(self) -> set[str]:
        """Why children have ended, by the worker's log."""
        log = self._cluster.kubectl("logs", self.name, "-n", self._place)
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        return {line["reason"] for line in lines if line.get("event") == "child ended"}


@pytest.fixture
def pool(cluster: Cluster, installed: Installed, place: str, app_image: str) -> Pool:
    """A pod of 256 MiB with three children, at work."""
    cluster.apply(a_queue(app_image), namespace=place)
    installed.wait_for("taskqueue", "greedy", place)
    return Pool(cluster, installed, place)


def test_one_huge_task_among_a_hundred_ends_alone(pool: Pool, app_image: str) -> None:
    assert pool.run(app_image, "crowd", 100) == {
        "sent": 100,
        "right": 99,
        "app": True,
        "failed": {"MemoryExceeded": 1},
    }
    pool.check()


def test_one_allocation_over_the_pods_limit_ends_its_child_and_not_the_pod(
    pool: Pool, app_image: str
) -> None:
    answer = pool.run(app_image, "gulp", 3)
    assert (answer["right"], answer["failed"]) == (0, {"MemoryExceeded": 3})
    pool.check()
    assert pool.run(app_image, "crowd", 20)["right"] == 19  # it works on
    pool.check()
