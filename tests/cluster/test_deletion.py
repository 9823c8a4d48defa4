"""Deleting a TaskQueue: tasks stay by default, go when that is asked for, and nothing is held for ever."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from millgate.brokers.base import Ask
from millgate.fleet import WorkerInfo, WorkerRef
from millgate.settlement import Ack
from millgate_operator.cleanup import LIMIT, clean_up
from millgate_operator.cluster import KubernetesCluster
from millgate_operator.context import make_context
from millgate_operator.errors import RetryLater
from millgate_operator.metrics import Metrics
from millgate_operator.names import FINALIZER
from millgate_operator.settings import OperatorSettings
from support.builders import some_messages
from support.clock import FakeClock
from support.manifests import a_task_queue, workers
from support.operator import Place
from support.postgres import database_url, open_queue
from support.wait import eventually


def on_postgres(**spec: object) -> dict:
    broker = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}
    return a_task_queue(**({"broker": broker, "workers": workers(replicas=0)} | spec))


@pytest.fixture
def queue(place: Place) -> Place:
    place.secret("db", uri=database_url())
    return place


def gone(queue: Place) -> bool:
    return queue.get("taskqueue", "hello") is None


def test_tasks_stay_by_default_and_nothing_holds_the_object(queue: Place) -> None:
    queue.apply(on_postgres())
    queue.becomes("taskqueue", "hello", "Ready", "True/Ready")
    broker = open_queue(f"{queue.namespace}.hello")
    try:
        broker.publish(some_messages(5))
        assert "finalizers" not in queue.there("taskqueue", "hello")["metadata"]
        queue.kubectl("delete", "taskqueue", "hello", "--timeout=5s")
        assert broker.stats().topics["default"].waiting == 5
    finally:
        broker.close()


def test_with_delete_what_waits_goes_and_what_runs_ends_first(queue: Place) -> None:
    queue.apply(on_postgres(deletionPolicy="Delete"))
    queue.becomes("taskqueue", "hello", "Ready", "True/Ready")
    broker = open_queue(f"{queue.namespace}.hello")
    try:
        broker.publish(some_messages(5))
        worker = WorkerRef("w", "w-1")
        broker.register(worker, WorkerInfo())
        [claim] = broker.claim(worker, Ask(n=1)).claims
        queue.kubectl("delete", "taskqueue", "hello", "--wait=false")
        eventually(lambda: broker.stats().topics["default"].waiting == 0, 10)
        assert not gone(queue), "one still runs"
        assert broker.claim(worker, Ask(n=1)).claims == ()
        broker.settle([Ack(claim.ref)])
        eventually(lambda: gone(queue), 10)
    finally:
        broker.close()


def test_a_change_of_mind_takes_the_hold_away(queue: Place) -> None:
    queue.apply(on_postgres(deletionPolicy="Delete"))
    eventually(
        lambda: FINALIZER in queue.there("taskqueue", "hello")["metadata"].get("finalizers", ()), 10
    )
    queue.apply(on_postgres(deletionPolicy="Retain"))
    eventually(lambda: "finalizers" not in queue.there("taskqueue", "hello")["metadata"], 10)


def test_a_broker_that_is_gone_for_good_does_not_hold_the_object_for_ever(
    empty: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No operator works here: the test plays it, ten minutes later."""
    # what the variable says is read when the library is imported, perhaps by an earlier test
    location = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(location, str(empty.cluster.kubeconfig))
    manifest = on_postgres(deletionPolicy="Delete")
    manifest["metadata"]["finalizers"] = [FINALIZER]
    empty.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    empty.kubectl("delete", "taskqueue", "hello", "--wait=false")
    deleted = empty.there("taskqueue", "hello")
    at = datetime.fromisoformat(deleted["metadata"]["deletionTimestamp"])
    clock = FakeClock((at + timedelta(seconds=LIMIT - 5)).astimezone(UTC).timestamp())
    context = make_context(KubernetesCluster(), clock, OperatorSettings(), Metrics())
    key = (empty.namespace, "hello")
    assert clean_up(context, key, deleted) is not None
    assert not gone(empty)
    clock.advance(10)

    def released() -> bool:
        """As the operator does: a conflict with another writer is no more than a reason to look again."""
        try:
            return clean_up(context, key, empty.there("taskqueue", "hello")) is None
        except RetryLater:
            return False

    eventually(released, 10)
    eventually(lambda: gone(empty), 5)
    assert "FinalizerReleased" in empty.events("hello")
    context.links.close_all()
