"""One reconciliation, where a request fails or somebody else is in the way."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from millgate.brokers.memory import MemoryBroker
from millgate_operator.cluster import ClusterError
from millgate_operator.context import Context, make_context
from millgate_operator.links import Links
from millgate_operator.metrics import Metrics
from millgate_operator.reconcile import reconcile
from millgate_operator.settings import OperatorSettings
from support.clock import FakeClock
from support.manifests import a_task_queue, a_topic, workers
from support.shelf import Shelf

KEY = ("shop", "hello")
ON_DB = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}


class Place:
    """A cluster in memory with brokers in memory, one for each queue's name on it."""

    def __init__(self) -> None:
        self.cluster, self.clock = Shelf(), FakeClock()
        self.brokers: dict[str, MemoryBroker] = {}
        self.secret("db")

    def secret(self, name: str) -> None:
        uri = base64.b64encode(b"postgresql://u:p@db/x").decode()
        self.cluster.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"uri": uri}}
        )

    def broker(self, url: str, queue: str, deadline: float) -> MemoryBroker:
        return self.brokers.setdefault(queue, MemoryBroker())

    def status(self, kind: str, name: str = "hello") -> dict[str, Any]:
        [found] = [one for one in self.cluster.there(kind) if one["metadata"]["name"] == name]
        return found.get("status", {})

    def condition(self, kind: str, name: str, aspect: str) -> str:
        found = {one["type"]: one for one in self.status(kind, name).get("conditions", ())}
        return f"{found[aspect]['status']}/{found[aspect]['reason']}" if aspect in found else ""


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def context(place: Place) -> Iterator[Context]:
    made = make_context(
        place.cluster,
        place.clock,
        OperatorSettings(),
        Metrics(),
        lambda deadline: Links(deadline, place.broker),
    )
    yield made
    made.links.close_all()


def refuse(verb: str, kind: str, status: int = 500) -> Any:
    def fault(asked: str, of: str) -> None:
        if (asked, of) == (verb, kind):
            raise ClusterError(status, "InternalError", "no luck")

    return fault


def test_a_pool_that_cannot_be_read_is_unknown_and_not_empty(
    place: Place, context: Context
) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB, workers=workers(replicas=3)))
    reconcile(context, KEY)
    assert place.status("TaskQueue")["workers"]["desired"] == 3
    place.cluster.fault = refuse("list", "Pod")
    assert reconcile(context, KEY) == 2.0, "looked at again soon"
    assert place.status("TaskQueue")["workers"].keys().isdisjoint({"desired", "ready", "replicas"})
    assert (
        place.condition("TaskQueue", "hello", "WorkersAvailable") == "Unknown/ClusterInternalError"
    )
    assert place.condition("TaskQueue", "hello", "Ready") == "Unknown/ClusterInternalError"


def test_while_paused_nothing_says_that_a_new_generation_was_looked_at(
    place: Place, context: Context
) -> None:
    queue = place.cluster.put(a_task_queue(broker=ON_DB, workers=workers(replicas=0)))
    reconcile(context, KEY)
    before = place.status("TaskQueue")
    queue["metadata"] |= {"generation": 2, "annotations": {"millgate.dev/reconcile": "paused"}}
    place.cluster.put(queue | {"status": before})
    reconcile(context, KEY)
    after = place.status("TaskQueue")
    assert after["observedGeneration"] == 1
    *kept, pause = after["conditions"]
    assert kept == before["conditions"]
    assert (pause["type"], pause["observedGeneration"]) == ("ReconciliationPaused", 2)
    writes = place.cluster.requests.count(("patch_status", "TaskQueue"))
    reconcile(context, KEY)
    assert place.cluster.requests.count(("patch_status", "TaskQueue")) == writes


def test_a_topic_that_cannot_be_read_keeps_what_the_broker_holds_for_it(
    place: Place, context: Context
) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB))
    place.cluster.put(a_topic(topicName="bills", concurrency={"limit": 5}))
    reconcile(context, KEY)
    place.cluster.put(a_topic(topicName="bills", ordering="Sideways"))
    reconcile(context, KEY)
    assert place.condition("Topic", "invoices", "Accepted") == "False/InvalidSpec"
    held = place.brokers["shop.hello"].configuration().topics
    assert held["bills"].limit == 5


def test_what_a_pod_takes_to_start_is_shown(place: Place, context: Context) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB))
    reconcile(context, KEY)
    state = context.pools.get(KEY)
    assert state is not None
    state.memory = replace(state.memory, cold_start=20.4)
    place.clock.advance(60)
    reconcile(context, KEY)
    assert place.status("TaskQueue")["workers"]["coldStartSeconds"] == 21
