"""What one broker does to its queues is no other queue's matter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.builders import some_messages
from support.faults import FaultProxy
from support.manifests import a_task_queue, workers
from support.operator import Operator, Place
from support.postgres import database_url, open_queue
from support.wait import eventually

ILL = 24  # queues on the broker that will be away: more than there are threads


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """A way to the same PostgreSQL that can be closed."""
    parts = urlsplit(database_url())
    made = FaultProxy((str(parts.hostname), int(parts.port or 5432)))
    yield made
    made.close()


def a_queue(name: str, secret: str) -> dict[str, Any]:
    broker = {"type": "Postgres", "connection": {"secretRef": {"name": secret}}}
    return a_task_queue(name, broker=broker, workers=workers(autoscaling={"min": 0, "max": 2}))


def connected(place: Place) -> int:
    found = place.cluster.objects("taskqueues", place.namespace)
    return sum(
        one["type"] == "BrokerConnected" and one["status"] == "True"
        for queue in found
        for one in queue.get("status", {}).get("conditions", ())
    )


def test_a_broker_that_is_away_keeps_no_other_queue_from_its_first_pod(
    place: Place, operator: Operator, proxy: FaultProxy
) -> None:
    parts = urlsplit(database_url())
    netloc = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
    place.secret("ill", uri=parts._replace(netloc=netloc).geturl())
    place.secret("well", uri=database_url())
    place.apply(*(a_queue(f"ill-{number}", "ill") for number in range(ILL)))
    place.apply(*(a_queue(f"well-{number}", "well") for number in range(3)))
    eventually(lambda: connected(place) == ILL + 3, 200, every=0.5)
    proxy.stall()
    time.sleep(10)  # until every thread has met one of them
    took = [first_pod(place, f"well-{number}") for number in range(3)]
    proxy.heal()
    print("first pods after", [f"{seconds:.2f} s" for seconds in took])
    assert sorted(took)[1] < 2.5, took


def first_pod(place: Place, name: str) -> float:
    """Seconds from a task in an empty queue to the patch that wants a pod for it."""
    broker = open_queue(f"{place.namespace}.{name}")
    try:
        broker.publish(some_messages(1))
        began = time.monotonic()

        def wanted() -> bool:
            made = place.there("deployment", f"{name}-workers")
            return bool(made["spec"]["replicas"] == 1)

        eventually(wanted, 60, every=0.05)
        return time.monotonic() - began
    finally:
        broker.close()
