"""From zero and back on a real API server: pods are objects written by hand, workers register from the test itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from millgate.brokers.base import Ask, Broker
from millgate.fleet import Beat, WorkerInfo, WorkerRef
from millgate.settlement import Ack
from millgate_operator import names
from support.builders import some_messages
from support.faults import FaultProxy
from support.manifests import a_task_queue, workers
from support.operator import Place
from support.postgres import database_url, open_queue
from support.wait import eventually


@pytest.fixture
def pool(place: Place) -> Iterator[Pool]:
    made = Pool(place)
    yield made
    made.broker.close()


class Pool:
    """A TaskQueue on PostgreSQL, its broker, and pods that a test plays."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.secret("db", uri=database_url())
        self.broker: Broker = open_queue(f"{place.namespace}.hello")
        self.workers: dict[str, WorkerRef] = {}

    def declare(self, **autoscaling: Any) -> None:
        fields = {"idleAfter": "1s", "stabilization": "1s", "headroom": "Low"} | autoscaling
        connection = {"secretRef": {"name": "db"}}
        manifest = a_task_queue(
            broker={"type": "Postgres", "connection": connection},
            workers=workers(children=1, autoscaling=fields),
        )
        self.place.apply(manifest)
        self.place.becomes("taskqueue", "hello", "AutoscalingActive", "True/Active", 15)

    def replicas(self) -> int:
        return int(self.place.there("deployment", "hello-workers")["spec"]["replicas"])

    def start(self, *names_: str) -> None:
        """Pods appear, their workers register; the Deployment's controller says what it sees."""
        for name in names_:
            self.pod(name, ready=True)
            self.workers[name] = WorkerRef(name, f"{name}-1")
            self.broker.register(self.workers[name], WorkerInfo(slots=1))
        self.controller()

    def stop(self, name: str) -> None:
        """A pod is gone, and its worker with it."""
        self.place.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        self.broker.unregister(self.workers.pop(name))
        self.controller()

    def pod(self, name: str, *, ready: bool) -> None:
        if self.place.get("pod", name) is None:
            labels = names.labels("hello", names.WORKER)
            container = {"name": "worker", "image": "x:1"}
            head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}}
            self.place.apply(head | {"spec": {"containers": [container]}})
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {
            "name": "worker",
            "ready": ready,
            "restartCount": 0,
            "image": "",
            "imageID": "",
            "state": state,
        }
        self.place.patch(
            "pod",
            name,
            {
                "status": {
                    "phase": "Running",
                    "conditions": [condition],
                    "containerStatuses": [status],
                }
            },
            "--subresource=status",
        )

    def controller(self) -> None:
        """What the Deployment's controller would report; there is none here."""
        made = self.place.there("deployment", "hello-workers")
        count = len(self.workers)
        status = {
            "observedGeneration": made["metadata"]["generation"],
            "replicas": count,
            "updatedReplicas": count,
            "readyReplicas": count,
        }
        self.place.patch("deployment", "hello-workers", {"status": status}, "--subresource=status")

    def beat(self, name: str, busy: int = 0) -> None:
        self.broker.extend(self.workers[name], (), Beat(busy=busy))

    def fenced(self) -> list[str]:
        rows = self.broker.stats().workers
        return sorted(row.name for row in rows if row.state == "Fenced")

    def cost(self, name: str) -> str | None:
        meta = self.place.there("pod", name)["metadata"]
        return meta.get("annotations", {}).get(names.DELETION_COST)


def test_a_task_wakes_a_pool_at_zero_within_two_seconds(pool: Pool) -> None:
    pool.declare(min=0, max=5)
    assert pool.replicas() == 0
    time.sleep(2)  # the pool is known to be at zero, and looked at rarely
    began = time.monotonic()
    pool.broker.publish(some_messages(1))
    eventually(lambda: pool.replicas() == 1, 5, every=0.05)
    assert time.monotonic() - began < 2.5  # two seconds, and what kubectl takes
    eventually(lambda: "ScaledUp" in pool.place.events("hello"), 5)


def test_a_backlog_wakes_as_many_as_it_needs_at_once(pool: Pool) -> None:
    pool.declare(min=0, max=20)
    pool.broker.publish(some_messages(12))
    sizes = {eventually(pool.replicas, 5, every=0.05)}
    eventually(lambda: sizes.add(pool.replicas()) or 12 in sizes, 5, every=0.05)
    assert sizes <= {12}


def test_a_busy_worker_is_never_sent_away_and_an_idle_one_goes(pool: Pool) -> None:
    pool.declare(min=1, max=5)
    pool.broker.publish(some_messages(3))
    eventually(lambda: pool.replicas() == 3, 5, every=0.05)
    pool.start("w-busy", "w-idle", "w-short")
    [long] = pool.broker.claim(pool.workers["w-busy"], Ask(n=1)).claims
    [short] = pool.broker.claim(pool.workers["w-short"], Ask(n=1)).claims
    [other] = pool.broker.claim(pool.workers["w-idle"], Ask(n=1)).claims
    for name in pool.workers:
        pool.beat(name, busy=1)
    time.sleep(2)
    assert pool.fenced() == []
    assert pool.replicas() == 3
    for claim in (other, short):
        pool.broker.settle([Ack(claim.ref)])
    pool.beat("w-idle")
    pool.beat("w-short")
    eventually(lambda: pool.fenced() in (["w-idle"], ["w-short"]), 30, every=0.3)
    [first] = pool.fenced()
    assert pool.broker.claim(pool.workers[first], Ask(n=1)).claims == ()
    eventually(lambda: pool.cost(first) == "-1000", 10)
    assert pool.replicas() == 3, "it is still seen as ready"
    pool.pod(first, ready=False)
    eventually(lambda: pool.replicas() == 2, 10)
    assert "w-busy" not in pool.fenced()
    eventually(lambda: "ScaledIn" in pool.place.events("hello"), 5)
    pool.broker.settle([Ack(long.ref)])


def test_demand_takes_back_a_worker_that_was_being_emptied(pool: Pool) -> None:
    pool.declare(min=0, max=2)
    pool.broker.publish(some_messages(1))
    eventually(lambda: pool.replicas() == 1, 5, every=0.05)
    pool.start("w-1")
    [claim] = pool.broker.claim(pool.workers["w-1"], Ask(n=1)).claims
    pool.broker.settle([Ack(claim.ref)])
    pool.beat("w-1")
    eventually(lambda: pool.fenced() == ["w-1"], 30, every=0.3)
    eventually(lambda: pool.cost("w-1") == "-1000", 10)
    pool.broker.publish(some_messages(1))
    eventually(lambda: pool.fenced() == [], 10)
    eventually(lambda: pool.cost("w-1") is None, 10)
    assert pool.replicas() == 1


def test_replicas_that_somebody_sets_while_we_look_are_judged_anew(pool: Pool) -> None:
    pool.declare(min=0, max=5)
    pool.place.kubectl("scale", "deployment/hello-workers", "--replicas=4")
    time.sleep(1)
    pool.start("w-1", "w-2", "w-3", "w-4")
    eventually(lambda: len(pool.fenced()) == 1, 30, every=0.3)
    assert pool.replicas() == 4


def test_the_same_manifest_applied_again_and_again_changes_no_replicas(pool: Pool) -> None:
    pool.declare(min=2, max=5)
    eventually(lambda: pool.replicas() == 2, 5)
    before = pool.place.there("deployment", "hello-workers")["metadata"]["generation"]
    for _ in range(4):
        pool.declare(min=2, max=5)
        pool.place.kubectl(
            "annotate", "taskqueue", "hello", f"synced={time.monotonic()}", "--overwrite"
        )
    time.sleep(1.5)
    assert pool.place.there("deployment", "hello-workers")["metadata"]["generation"] == before


def test_a_pool_without_its_broker_keeps_its_size(pool: Pool) -> None:
    parts = urlsplit(database_url())
    proxy = FaultProxy((str(parts.hostname), int(parts.port or 5432)))
    netloc = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
    pool.place.secret("db", uri=parts._replace(netloc=netloc).geturl())
    try:
        pool.declare(min=0, max=5)
        pool.broker.publish(some_messages(3))
        eventually(lambda: pool.replicas() == 3, 5, every=0.05)
        pool.start("w-1", "w-2", "w-3")
        proxy.refuse()
        proxy.cut()
        pool.place.becomes("taskqueue", "hello", "AutoscalingActive", "False/SignalLost", 60)
        pool.place.kubectl("annotate", "taskqueue", "hello", "look=again")
        time.sleep(4)
        assert pool.replicas() == 3
    finally:
        proxy.close()


def test_a_secret_that_has_become_wrong_is_told_and_the_pool_goes_on(pool: Pool) -> None:
    """Workers that are connected go on as well."""
    pool.declare(min=0, max=5)
    pool.place.secret("db", uri="postgresql://user:secret@127.0.0.1:1/db")
    pool.place.becomes("taskqueue", "hello", "BrokerConnected", "False/Unreachable", 60)
    pool.broker.publish(some_messages(3))
    eventually(lambda: pool.replicas() == 3, 10, every=0.05)


def test_holding_and_draining_sends_idle_workers_away_and_waits_for_busy_ones(pool: Pool) -> None:
    pool.declare(min=2, max=5)
    eventually(lambda: pool.replicas() == 2, 5)
    pool.start("w-1", "w-2")
    pool.broker.publish(some_messages(2))
    [claim] = pool.broker.claim(pool.workers["w-1"], Ask(n=1)).claims
    pool.beat("w-1", busy=1)
    pool.place.patch("taskqueue", "hello", {"spec": {"suspend": "HoldAndDrain"}})
    eventually(lambda: pool.fenced() == ["w-1", "w-2"], 10)
    eventually(lambda: pool.cost("w-2") == "-1000", 10)
    pool.pod("w-2", ready=False)
    eventually(lambda: pool.replicas() == 1, 10)
    pool.stop("w-2")
    time.sleep(2)
    assert pool.replicas() == 1
    pool.broker.settle([Ack(claim.ref)])
    pool.beat("w-1")
    pool.pod("w-1", ready=False)
    eventually(lambda: pool.replicas() == 0, 10)
    events = json.loads(pool.place.kubectl("get", "events.events.k8s.io", "-o", "json"))["items"]
    assert any("Suspended" in one.get("note", "") for one in events)
