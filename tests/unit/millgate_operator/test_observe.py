"""What the operator reads of a broker's Secret, and what it says of one that does not answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from millgate_operator.errors import Blocked
from millgate_operator.observe import connection, out_of_reach, secret_version, short_hosts
from millgate_operator.observed import Connection
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue, parse_task_queue
from support.manifests import a_task_queue

SETTINGS = OperatorSettings(namespace="millgate-system")
CRASHED = {
    "name": "brokerd",
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 4, "message": "the user lacks configure"}},
}


class Found:
    """A cluster in which these objects are, by kind and name."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self._objects = objects

    def get(self, kind: tuple[str, str], _namespace: str, name: str) -> Any:
        found = self.list(kind)
        return next((one for one in found if one["metadata"]["name"] == name), None)

    def list(self, kind: tuple[str, str], *_: str, **__: str) -> list[Any]:
        return [one for one in self._objects if one["kind"] == kind[1]]


def a_secret(uri: str) -> dict[str, Any]:
    data = {"uri": base64.b64encode(uri.encode()).decode()}
    return {
        "kind": "Secret", "metadata": {"name": "broker", "resourceVersion": "7"}, "data": data
    }  # fmt: skip


def a_deployment(ready: int) -> dict[str, Any]:
    template = {"metadata": {"annotations": {"millgate.dev/config": "6"}}}
    return {
        "kind": "Deployment",
        "metadata": {"name": "hello-broker", "generation": 1},
        "spec": {"replicas": 2, "template": template},
        "status": {"replicas": 2, "readyReplicas": ready},
    }


def a_pod(*containers: dict[str, Any]) -> dict[str, Any]:
    status = {"containerStatuses": list(containers)}
    return {"kind": "Pod", "metadata": {"name": "hello-broker-x"}, "status": status}


def queue(kind: str) -> TaskQueue:
    broker = {"type": kind, "connection": {"secretRef": {"name": "broker"}}}
    manifest = a_task_queue(broker=None if kind == "Local" else broker)
    manifest["spec"].setdefault("broker", {"type": "Local"})
    manifest["metadata"]["namespace"] = "shop"
    return parse_task_queue(manifest)


def said(kind: str, url: str, *objects: Mapping[str, Any]) -> str:
    found: Any = Found(*objects)
    return out_of_reach(found, queue(kind), Connection(url), SETTINGS)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("amqp://u:p@rabbit/vhost", "amqp://u:p@rabbit/vhost?brokerd=never"),
        ("amqp://rabbit/?heartbeat=5", "amqp://rabbit/?heartbeat=5&brokerd=never"),
        ("amqps://rabbit/?brokerd=auto", "amqps://rabbit/?brokerd=auto&brokerd=never"),
        ("amqps://rabbit/#insecure", "amqps://rabbit/?brokerd=never#insecure"),
    ],
)
def test_the_operator_itself_starts_no_brokerd(url: str, wanted: str) -> None:
    found: Any = Found(a_secret(url))
    read = connection(found, queue("RabbitMQ"), SETTINGS)
    assert read.url == wanted
    assert read.files["uri"] == url.encode(), "workers read what the Secret says"


def test_brokerd_keeps_the_secret_that_it_has_read_while_there_is_none() -> None:
    one, secret = queue("RabbitMQ"), a_secret("amqp://rabbit/")

    def version(*objects: Mapping[str, Any]) -> str:
        found: Any = Found(*objects)
        return secret_version(found, one, SETTINGS)

    assert version(secret, a_deployment(2)) == "7"
    assert version(a_deployment(2)) == "6"
    assert version(a_secret("redis://cache/0"), a_deployment(2)) == "6"
    assert version() == ""


def test_a_url_of_something_else_is_refused_with_one_to_copy() -> None:
    found: Any = Found(a_secret("redis://:hunter2@cache/0"))
    with pytest.raises(Blocked, match="write amqp://user:password@host/vhost") as refused:
        connection(found, queue("RabbitMQ"), SETTINGS)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@db/app", ["db"]),
        ("postgresql://u:p@db:5432,db-2:5433,db-3.shop.svc/app", ["db", "db-2"]),
        ("postgresql:///app?host=db", ["db"]),
        ("redis+sentinel://s1:26379,s2:26379/mymaster/0", ["s1", "s2"]),
        ("amqp://u:p%40x@rabbit/%2F?heartbeat=5", ["rabbit"]),
        ("postgresql://u:p@db.shop.svc/app", []),
        ("postgresql://u:p@10.0.0.7:5432/app", []),
        ("postgresql://u:p@[::1]:5432/app", []),
        ("postgresql://u:p@localhost/app", []),
        ("postgresql:///app?host=/tmp", []),
    ],
)
def test_a_short_host_is_one_that_means_something_in_one_namespace_only(
    url: str, hosts: list[str]
) -> None:
    assert short_hosts(url) == hosts


def test_a_short_host_of_another_namespace_is_told_how_to_be_written() -> None:
    words = said("Postgres", "postgresql://u:hunter2@db/app")
    assert "pods of namespace shop find db, the operator in millgate-system does not" in words
    assert "write db.shop.svc in the Secret" in words
    assert "hunter2" not in words
    assert said("Postgres", "postgresql://u:p@db.shop.svc/app") == ""


def test_a_short_host_of_the_operators_own_namespace_is_good() -> None:
    found: Any = Found()
    at_home = OperatorSettings(namespace="shop")
    url = Connection("postgresql://db/app")
    assert out_of_reach(found, queue("Postgres"), url, at_home) == ""


def test_a_local_broker_has_no_secret_to_be_mended() -> None:
    assert said("Local", "local://hello-broker:7411?key_file=/x") == ""


def test_a_brokerd_that_does_not_come_up_is_told_with_its_last_words() -> None:
    url = "amqp://rabbit.shop.svc/"
    assert "Deployment hello-broker of its brokerd is not there yet" in said("RabbitMQ", url)
    words = said("RabbitMQ", url, a_deployment(0), a_pod(CRASHED))
    assert "of brokerd's Deployment hello-broker, 0 of 2 are ready" in words
    assert "pod hello-broker-x: exit code 4, 3 restarts: the user lacks configure" in words
    assert said("RabbitMQ", url, a_deployment(1), a_pod(CRASHED)) == ""
