"""The operator with nothing but the rights that the chart gives it, on a real API server; and two of them at once."""

from __future__ import annotations

import json
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from node import local
from node.local import LocalCluster
from support.manifests import a_task_queue, a_topic, workers
from support.operator import ROOT, Operator, Place, define
from support.postgres import database_url
from support.wait import eventually

Start = Callable[..., Operator]


@pytest.fixture(scope="module")
def server() -> Iterator[LocalCluster]:
    """An API server of their own: nobody else does here what these operators are to do."""
    made = local.up(f"rights-{secrets.token_hex(4)}", nodes=0, say=print, ends_with_us=True)
    try:
        define(made)
        yield made
    finally:
        made.down()


@pytest.fixture
def start(server: LocalCluster, logs: Path) -> Iterator[Start]:
    """Start further operators; all are gone afterwards."""
    started: list[Operator] = []

    def start(kubeconfig: Path | None = None, **settings: str) -> Operator:
        number = len(started)
        one = Operator(
            kubeconfig or server.kubeconfig, logs / f"{number}.log", tick="500ms", **settings
        )
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.close()
        print(one.text())


def install(server: LocalCluster, release: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Apply the accounts and rights that the chart makes; answers all that it would make."""
    text = server.helm(
        "template", "mine", ROOT / "charts" / "millgate", "-n", release, "-f", "-",
        "--kube-version", "1.37.0", "--set", "crds.install=false", "--set", "test.enabled=false",
        stdin=json.dumps(values),
    )  # fmt: skip
    objects = [item for item in yaml.safe_load_all(text) if item]
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    for item in objects:
        if item["kind"] in kinds:
            server.apply(item)
    return objects


def works(place: Place) -> None:
    place.secret("db", uri=database_url())
    broker = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}
    place.apply(a_task_queue(broker=broker, workers=workers(replicas=1)), a_topic())
    place.apply(a_task_queue("small"))
    place.secret("rabbit", uri="amqp://user:secret@127.0.0.1:1/")
    carried = {"type": "RabbitMQ", "connection": {"secretRef": {"name": "rabbit"}}}
    place.apply(a_task_queue("carried", broker=carried))
    place.becomes("topic", "invoices", "Ready", "True/Ready", 15)
    eventually(lambda: place.there("deployment", "hello-workers")["spec"]["replicas"] == 1, 10)
    place.there("secret", "small-broker")
    place.there("deployment", "carried-broker")
    message, _ = place.becomes("taskqueue", "carried", "BrokerConnected", "False/Unreachable", 15)
    assert "of brokerd's Deployment carried-broker, 0 of 2 are ready" in message
    place.patch("taskqueue", "hello", {"spec": {"workers": None}})
    eventually(lambda: place.get("deployment", "hello-workers") is None, 10)


def sees(one: Operator) -> None:
    """Its own sign of life comes through the watch: what is measured since the last one becomes less."""
    series = "millgate_operator_watch_age_seconds"
    before = one.number(series)
    eventually(lambda: one.number(series) < before, 25, every=0.5)


def may(server: LocalCluster, account: Path, verb: str, what: str, namespace: str) -> bool:
    """Whether an account has a right."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "group": "coordination.k8s.io",
                "resource": "leases",
                "name": what.partition("/")[2],
                "verb": verb,
                "namespace": namespace,
            }
        },
    }
    kubectl = ("kubectl", "--kubeconfig", account, "create", "--validate=false", "-o", "json")
    answer: dict[str, Any] = json.loads(server.run(*kubectl, "-f", "-", stdin=json.dumps(review)))
    return bool(answer["status"]["allowed"])


def test_named_namespaces_are_enough_and_no_other_is_looked_at(
    server: LocalCluster, empty: Place, start: Start
) -> None:
    with server.namespace("release") as release, server.namespace("other") as foreign:
        install(server, release, {"watch": {"namespaces": [empty.namespace]}})
        account = server.kubeconfig_for("mine-millgate", release)
        named = {"namespace": release, "lease": "mine-millgate", "identity": "one"}
        one = start(account, namespaces=empty.namespace, **named)
        eventually(one.leads, 20)
        other = Place(server, foreign)
        other.apply(a_task_queue())
        works(empty)
        assert "status" not in other.there("taskqueue", "hello")
        assert "forbidden" not in one.text().lower()
        allowed = server.run(
            "kubectl", "--kubeconfig", account, "auth", "can-i", "--list", "-n", empty.namespace
        )
        [line] = [line for line in allowed.splitlines() if line.startswith("secrets ")]
        assert line.endswith("[get create]")
        other.kubectl("delete", "taskqueues", "--all", "--wait=false")


def test_the_whole_cluster_needs_one_role_and_no_list_of_secrets(
    server: LocalCluster, empty: Place, start: Start
) -> None:
    with server.namespace("release") as release:
        made = install(server, release, {})
        account = server.kubeconfig_for("mine-millgate", release)
        one = start(account, namespace=release, lease="mine-millgate", identity="one")
        eventually(one.leads, 20)
        works(empty)
        sees(one)
        assert "forbidden" not in one.text().lower()
        assert may(server, account, "update", "lease/mine-millgate", release)
        for verb in ("create", "update", "patch", "list"):
            assert not may(server, account, verb, "leases", "kube-system"), verb
        assert not may(server, account, "update", "lease/mine-millgate", "kube-system")
        for item in made:
            if item["kind"] in ("ClusterRole", "ClusterRoleBinding"):
                server.kubectl("delete", item["kind"], item["metadata"]["name"])


def test_one_leads_and_the_other_takes_over_when_it_dies(
    server: LocalCluster, empty: Place, start: Start
) -> None:
    settings = {"namespaces": empty.namespace, "namespace": empty.namespace, "lease": "pair"}
    first = start(identity="first", **settings)
    eventually(first.leads, 20)
    second = start(identity="second", **settings)
    eventually(lambda: second.page("/healthz").startswith("200"), 20)
    time.sleep(3)
    assert not second.leads()
    assert first.process is not None
    first.process.send_signal(signal.SIGKILL)
    began = time.monotonic()
    eventually(second.leads, 30)
    assert time.monotonic() - began < 20
    empty.apply(a_topic())
    empty.becomes("topic", "invoices", "Accepted", "False/QueueNotFound", 10)


def test_a_leader_that_is_told_to_stop_hands_over_at_once(
    server: LocalCluster, empty: Place, start: Start
) -> None:
    settings = {"namespaces": empty.namespace, "namespace": empty.namespace, "lease": "pair"}
    first = start(identity="first", **settings)
    eventually(first.leads, 20)
    second = start(identity="second", **settings)
    eventually(lambda: second.page("/healthz").startswith("200"), 20)
    assert first.process is not None
    first.process.terminate()
    assert first.wait() == 0
    began = time.monotonic()
    eventually(second.leads, 10)
    assert time.monotonic() - began < 6


def test_a_leader_whose_lease_is_taken_ends_itself(
    server: LocalCluster, empty: Place, start: Start
) -> None:
    one = start(
        identity="one", namespaces=empty.namespace, namespace=empty.namespace, lease="taken"
    )
    eventually(one.leads, 20)
    empty.patch("lease", "taken", {"spec": {"holderIdentity": "thief"}})
    assert one.wait(20) == 1
    assert "the lease is lost" in one.text()


def test_without_the_definitions_or_beside_old_ones_it_says_what_to_do(start: Start) -> None:
    bare = local.up(f"bare-{secrets.token_hex(4)}", nodes=0, say=print, ends_with_us=True)
    try:
        one = start(bare.kubeconfig, namespaces="default", namespace="default", lease="")
        assert one.wait(40) == 1
        assert "the cluster knows no TaskQueue; apply the files of crds/ first" in one.text()
        define(bare)
        old = ("crd", "topics.millgate.dev", "millgate.dev/schema-version=0", "--overwrite")
        bare.kubectl("annotate", *old)
        other = start(bare.kubeconfig, namespaces="default", namespace="default", lease="")
        assert other.wait(40) == 1
        assert "definition topics.millgate.dev is of schema version 0" in other.text()
    finally:
        bare.down()


def test_a_wrong_setting_is_one_line(start: Start) -> None:
    one = start(resync="soon")
    assert one.wait() == 2
    assert one.text().strip() == (
        "millgate-operator: error: MILLGATE_OPERATOR_RESYNC: 'soon' is not a duration; "
        "write it like 90s, 15m, 1h30m or 250ms"
    )
