"""A TaskQueue on PostgreSQL in a pod: right answers, and a pool that goes 0 → 3 → 0 without cutting a task short."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from node import services
from node.cluster import Cluster
from support.install import Installed, postgres
from support.server_pods import ServerPod
from support.wait import eventually

DATABASE = ServerPod("database", services.POSTGRES, 5432, "POSTGRES_PASSWORD", "p@ss/w:rd%")


def uri(namespace: str) -> str:
    """The database's URL, good in every namespace."""
    return f"postgresql://postgres:p%40ss%2Fw%3Ard%25@database.{namespace}.svc:5432/postgres"


def a_queue(image: str) -> dict[str, Any]:
    return {
        "apiVersion": "millgate.dev/v1alpha1",
        "kind": "TaskQueue",
        "metadata": {"name": "ledger"},
        "spec": {
            "broker": {"type": "Postgres", "connection": {"secretRef": {"name": "database"}}},
            "workers": {
                "image": image,
                "app": "ledger.tasks:app",
                "children": 1,
                "drainTimeout": "30s",
                "autoscaling": {
                    "min": 0,
                    "max": 3,
                    "targetLatency": "5s",
                    "idleAfter": "5s",
                    "stabilization": "5s",
                    "scaleIn": {"percent": 100},
                },
            },
        },
    }


def sql(cluster: Cluster, namespace: str, statement: str) -> list[str]:
    """Rows of a statement, columns joined by '|'."""
    psql = ("psql", "-h", "/tmp", "-U", "postgres", "-At", "-c", statement)
    text = cluster.kubectl("exec", "database", "-n", namespace, "--", *psql)
    return text.strip().splitlines()


@pytest.fixture
def database(cluster: Cluster, place: str) -> str:
    """The namespace, with a database that answers."""
    cluster.apply(*DATABASE.objects(uri(place)), namespace=place)
    cluster.kubectl("wait", "pod/database", "-n", place, "--for=condition=Ready", "--timeout=90s")
    table = "CREATE TABLE ledger (task text, event text, pod text, at timestamptz DEFAULT now())"
    eventually(lambda: sql(cluster, place, table) == ["CREATE TABLE"], timeout=30, every=1)
    return place


def test_a_pool_grows_from_nothing_and_shrinks_to_nothing_without_interrupting_a_task(
    cluster: Cluster, installed: Installed, database: str, app_image: str
) -> None:
    place = database
    cluster.apply(a_queue(app_image), namespace=place)
    installed.wait_for("taskqueue", "ledger", place, "BrokerConnected")
    assert installed.pods(place, "ledger") == []
    broker = postgres(place, "ledger", uri(place))

    squares = installed.send(place, app_image, "square", 500, broker)
    assert installed.answer(place, squares)["right"] == 500

    naps = installed.send(place, app_image, "nap", 24, broker)
    eventually(lambda: len(installed.pods(place, "ledger")) == 3, timeout=60, every=0.2)
    assert installed.answer(place, naps)["right"] == 24  # every one on its first start
    eventually(lambda: not installed.pods(place, "ledger"), timeout=120, every=0.5)

    events = Counter(sql(cluster, place, "SELECT event FROM ledger"))
    assert events == {"start": 24, "end": 24}
    assert len(set(sql(cluster, place, "SELECT DISTINCT pod FROM ledger"))) == 3
    restarts = sql(
        cluster,
        place,
        "SELECT task FROM ledger WHERE event = 'start' GROUP BY 1 HAVING count(*) > 1",
    )
    assert restarts == []


def test_a_deleted_pod_ends_the_long_tasks_that_it_runs_and_hands_the_rest_over(
    cluster: Cluster, installed: Installed, database: str, app_image: str
) -> None:
    place = database
    queue = a_queue(app_image)
    queue["spec"]["workers"]["autoscaling"] = {"min": 1, "max": 1}
    queue["spec"]["workers"] |= {"children": 2, "drainTimeout": "60s"}
    cluster.apply(queue, namespace=place)
    installed.wait_for("taskqueue", "ledger", place)
    [pod] = installed.pods(place, "ledger")
    name = pod["metadata"]["name"]

    naps = installed.send(place, app_image, "slumber", 4, postgres(place, "ledger", uri(place)))
    started = "SELECT count(*) FROM ledger WHERE event = 'start'"
    eventually(lambda: sql(cluster, place, started) == ["2"], timeout=60, every=0.1)
    [deleted] = sql(cluster, place, "SELECT now()")
    cluster.kubectl("delete", "pod", name, "-n", place, timeout=120)  # until it is gone
    assert installed.answer(place, naps)["right"] == 4  # every one on its first start

    events = sql(cluster, place, f"SELECT event, pod = '{name}', at > '{deleted}' FROM ledger")
    assert Counter(events) == {
        "start|t|f": 2,  # by the deleted pod, before
        "end|t|t": 2,  # … which ended what it had
        "start|f|t": 2,
        "end|f|t": 2,
    }
