"""One reconciliation, where a request fails or somebody else is in the way."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from millgate.brokers.base import Server
from millgate.brokers.memory import MemoryBroker
from millgate_operator.cluster import ClusterError
from millgate_operator.context import Context, make_context
from millgate_operator.links import Links
from millgate_operator.metrics import Metrics
from millgate_operator.reconcile import reconcile
from millgate_operator.settings import OperatorSettings
from support.builders import some_messages
from support.clock import FakeClock
from support.manifests import a_task_queue, a_topic, workers
from support.shelf import Shelf

KEY = ("shop", "hello")
ON_DB = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}


class OneServer(MemoryBroker):
    """A broker that stays when a connection to it is closed, and names its place as PostgreSQL does."""

    def __init__(self, schema: str) -> None:
        super().__init__()
        self._schema = schema

    def server(self) -> Server:
        return Server("postgres", "db/x", detail={"schema": self._schema})

    def close(self) -> None:
        """Others use it."""


class Place:
    """A cluster in memory with brokers in memory, one for each schema."""

    def __init__(self) -> None:
        self.cluster, self.clock = Shelf(), FakeClock()
        self.brokers: dict[str, OneServer] = {}
        self.secret("db")

    def secret(
        self, name: str, query: str = "", namespace: str = "shop", scheme: str = "postgresql"
    ) -> None:
        uri = base64.b64encode(f"{scheme}://u:p@db/0{query}".encode()).decode()
        meta = {"name": name, "namespace": namespace}
        self.cluster.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"uri": uri}}
        )

    def broker(self, url: str, queue: str, deadline: float) -> OneServer:
        schema = url.partition("?schema=")[2] or queue.replace(".", "_").replace("-", "_")
        return self.brokers.setdefault(schema, OneServer(schema))

    def queue(self, namespace: str, name: str, created: str, **spec: Any) -> tuple[str, str]:
        """A TaskQueue of some age; answers its key."""
        made = a_task_queue(name, **({"broker": ON_DB} | spec))
        made["metadata"] |= {"namespace": namespace, "creationTimestamp": f"{created}T00:00:00Z"}
        self.cluster.put(made)
        return namespace, name

    def delete(self, key: tuple[str, str]) -> None:
        """As the API server does to an object with a finalizer."""
        [found] = [
            one
            for one in self.cluster.there("TaskQueue")
            if (one["metadata"]["namespace"], one["metadata"]["name"]) == key
        ]
        at = datetime.fromtimestamp(self.clock.now(), UTC).isoformat()
        found["metadata"] |= {"deletionTimestamp": at}

    def status(self, kind: str, name: str = "hello") -> dict[str, Any]:
        found = next(one for one in self.cluster.there(kind) if one["metadata"]["name"] == name)
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
    held = place.brokers["shop_hello"].configuration().topics
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


# --- what is applied -----------------------------------------------------------------------------


def test_an_object_of_somebody_else_is_not_taken_over(place: Place, context: Context) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"theirs": "yes"}}
    before = place.cluster.put(theirs | {"metadata": {"name": "hello-workers"}})
    place.cluster.put(a_task_queue(broker=ON_DB))
    reconcile(context, KEY)
    assert place.cluster.there("ConfigMap") == [before]
    assert place.condition("TaskQueue", "hello", "Ready") == "False/NameConflict"
    labels = {"millgate.dev/queue": "hello"}
    place.cluster.put(theirs | {"metadata": {"name": "hello-workers", "labels": labels}})
    reconcile(context, KEY)
    [handed_over] = place.cluster.there("ConfigMap")
    assert "MILLGATE_QUEUE" in handed_over["data"]
    assert place.condition("TaskQueue", "hello", "Ready") != "False/NameConflict"


def test_a_secret_of_somebody_else_is_not_the_key_of_a_broker(
    place: Place, context: Context
) -> None:
    place.secret("hello-broker")
    place.cluster.put(a_task_queue())
    reconcile(context, KEY)
    assert place.condition("TaskQueue", "hello", "BrokerConnected") == "False/NameConflict"


def test_replicas_that_change_while_they_are_taken_over_stay_as_they_have_become(
    place: Place, context: Context
) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB, workers=workers(replicas=2)))
    reconcile(context, KEY)
    context.applier.forget()
    changes = iter([8])

    def somebody_scales(verb: str, kind: str) -> None:
        if (verb, kind) == ("apply", "Deployment"):
            [live] = place.cluster.there("Deployment")
            for count in changes:
                place.cluster.put(live | {"spec": live["spec"] | {"replicas": count}})

    place.cluster.fault = somebody_scales
    reconcile(context, KEY)
    [live] = place.cluster.there("Deployment")
    assert live["spec"]["replicas"] == 8
    assert place.condition("TaskQueue", "hello", "Stalled") == ""


def test_an_unchanged_queue_costs_few_requests(place: Place, context: Context) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB, workers=workers(replicas=0)))
    reconcile(context, KEY)
    place.cluster.requests.clear()
    reconcile(context, KEY)
    reads = [("get", "TaskQueue"), ("list", "Topic"), ("get", "Secret"), ("get", "Deployment")]
    assert sorted(place.cluster.requests) == sorted([*reads, ("list", "Pod")])


def test_nothing_is_remembered_of_what_has_gone(place: Place, context: Context) -> None:
    queue = place.cluster.put(a_task_queue(broker=ON_DB, workers=workers(replicas=0)))
    place.cluster.put(a_topic())
    reconcile(context, KEY)
    context.metrics.add(
        "millgate_autoscaler_decisions_total", namespace="shop", queue="hello", direction="up"
    )
    for kind, name in (("TaskQueue", "hello"), ("Topic", "invoices")):
        place.cluster.delete((queue["apiVersion"], kind), "shop", name, "")
    reconcile(context, KEY)
    place.clock.advance(31)
    context.tidy(30)
    assert context.written == {}
    assert 'queue="hello"' not in context.metrics.text([])
    assert not context.links.is_placed(KEY)
    assert context.links._places == {}


# --- two queues for one set of tasks -------------------------------------------------------------

#: (namespace, name) of the older and the younger one, and the query of their URLs: each pair shares a schema
MEETINGS = [
    ("shop-a", "b", "shop", "a-b", ""),
    ("shop", "one", "shop", "two", "?schema=jobs"),
]


def two(place: Place, meeting: tuple[str, ...]) -> tuple[tuple[str, str], tuple[str, str]]:
    """An older and a younger queue on one schema; both would have their tasks removed with them."""
    first, name, second, other, query = meeting
    for namespace in (first, second):
        place.secret("db", query, namespace)
    spec = {"deletionPolicy": "Delete", "workers": workers(replicas=2)}
    older = place.queue(first, name, "2026-01-01", **spec)
    return older, place.queue(second, other, "2026-01-02", **spec)


@pytest.fixture(params=MEETINGS, ids=["names that differ by a dash", "a schema in the URL"])
def pair(request: pytest.FixtureRequest, place: Place) -> tuple[tuple[str, str], tuple[str, str]]:
    return two(place, request.param)


def tasks_left(place: Place) -> int:
    [broker] = place.brokers.values()
    return sum(topic.waiting or 0 for topic in broker.stats().topics.values())


@pytest.mark.parametrize("looked_at", ["older", "younger"])
def test_of_two_queues_in_one_schema_the_younger_has_no_part_in_it(
    place: Place, context: Context, pair: tuple[tuple[str, str], tuple[str, str]], looked_at: str
) -> None:
    """Whoever is looked at first after the operator has begun."""
    older, younger = pair
    for key in (older, younger) if looked_at == "older" else (younger, older):
        reconcile(context, key)
    assert place.condition("TaskQueue", younger[1], "Ready") == "False/PrefixConflict"
    assert place.condition("TaskQueue", older[1], "BrokerConnected") == "True/Connected"
    assert context.pools.get(younger) is None, (
        "nobody makes it larger for tasks that are not its own"
    )
    made = [one["metadata"]["name"] for one in place.cluster.there("Deployment")]
    assert made == [f"{older[1]}-workers"]


def test_the_younger_one_takes_nobodys_tasks_along(
    place: Place, context: Context, pair: tuple[tuple[str, str], tuple[str, str]]
) -> None:
    older, younger = pair
    for key in pair:
        reconcile(context, key)
    [broker] = place.brokers.values()
    broker.publish(some_messages(5))
    place.delete(younger)
    context.links.close(older)  # as if the operator had begun anew
    context.links.close(younger)
    place.cluster.fault = refuse("get", "Secret", 403)
    assert reconcile(context, younger) is not None
    place.cluster.fault = lambda verb, kind: None
    assert reconcile(context, younger) is None
    assert not broker.configuration().queue.suspended
    assert tasks_left(place) == 5
    place.delete(older)
    assert reconcile(context, older) is None
    assert tasks_left(place) == 0


def test_who_cannot_be_looked_at_may_have_the_same_tasks(place: Place, context: Context) -> None:
    """For ten minutes; then the object goes, and the tasks stay."""
    older, younger = two(place, MEETINGS[0])
    reconcile(context, younger)
    place.delete(younger)
    [broker] = place.brokers.values()
    broker.publish(some_messages(5))
    context.links.close(older)
    place.cluster.delete(("v1", "Secret"), older[0], "db", "")
    assert reconcile(context, younger) is not None
    place.clock.advance(601)
    assert reconcile(context, younger) is None
    assert tasks_left(place) == 5


@pytest.mark.parametrize(("mine", "prefix"), [("Postgres", "one"), ("Redis", "o-ne")])
def test_who_cannot_have_the_same_tasks_is_not_waited_for(
    place: Place, context: Context, mine: str, prefix: str
) -> None:
    """A server of another kind, or one on which names that differ by a dash are two."""
    place.secret("db", scheme={"Postgres": "postgresql", "Redis": "redis"}[mine])
    gone = {"type": "Redis", "connection": {"secretRef": {"name": "gone"}}, "prefix": prefix}
    place.queue("shop", "older", "2026-01-01", broker=gone)
    here = ON_DB | {"type": mine, "prefix": "one" if mine == "Postgres" else "o_ne"}
    younger = place.queue("shop", "younger", "2026-01-02", broker=here, deletionPolicy="Delete")
    reconcile(context, younger)
    [broker] = place.brokers.values()
    broker.publish(some_messages(5))
    place.delete(younger)
    assert reconcile(context, younger) is None
    assert tasks_left(place) == 0


# --- finalizers ----------------------------------------------------------------------------------


def test_a_secret_that_may_not_be_read_does_not_hold_an_object_for_ever(
    place: Place, context: Context
) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB, deletionPolicy="Delete"))
    reconcile(context, KEY)
    place.delete(KEY)
    place.cluster.fault = refuse("get", "Secret", 403)
    assert reconcile(context, KEY) == 2.0
    place.clock.advance(601)
    assert reconcile(context, KEY) is None
    assert place.cluster.there("TaskQueue") == []
    assert "FinalizerReleased" in [one["reason"] for one in place.cluster.there("Event")]


def test_who_thinks_better_of_it_keeps_the_tasks(place: Place, context: Context) -> None:
    place.cluster.put(a_task_queue(broker=ON_DB, deletionPolicy="Delete"))
    reconcile(context, KEY)
    [broker] = place.brokers.values()
    broker.publish(some_messages(5))
    place.delete(KEY)
    [found] = place.cluster.there("TaskQueue")
    found["spec"]["deletionPolicy"] = "Retain"
    assert reconcile(context, KEY) is None
    assert place.cluster.there("TaskQueue") == []
    assert tasks_left(place) == 5
