"""A TaskQueue on Redis: over TLS by the authority of its Secret, and on no server that would throw tasks away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import certificates
from support.manifests import a_task_queue, a_topic
from support.operator import Operator, Place
from support.programs import Folder, free_port, user_for
from support.redis import Admin, open_queue
from support.servers import Redis
from support.wait import eventually

SOON = 5.0
PASSWORD = "redis-p4ss"
IN_POD = "/etc/millgate/broker"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates, as `certificates.make` names them."""
    made = tmp_path_factory.mktemp("certificates")
    certificates.make(made)
    return made


@pytest.fixture(scope="module")
def port(files: Path) -> Iterator[int]:
    """Where a server speaks TLS and wants a password."""
    folder = Folder(user_for("redis"))
    for name in ("server.crt", "server.key", "ours.crt"):
        folder.own(Path(shutil.copy(files / name, folder.path)))
    tls = free_port()
    paths = [("cert-file", "server.crt"), ("key-file", "server.key"), ("ca-cert-file", "ours.crt")]
    arguments = [
        part for flag, name in paths for part in (f"--tls-{flag}", f"{folder.path}/{name}")
    ]
    server = Redis(
        "--tls-port", str(tls), *arguments, "--tls-auth-clients", "no", "--requirepass", PASSWORD
    )
    yield tls
    server.close()
    folder.remove()


def url(port: int, authority: str) -> str:
    return f"rediss://:{PASSWORD}@127.0.0.1:{port}/0?ca={authority}"


def test_a_queue_on_redis_is_reached_by_the_authority_of_its_secret(
    place: Place, operator: Operator, files: Path, port: int
) -> None:
    secret = {"uri": url(port, f"{IN_POD}/ca.crt")}
    place.secret("redis", **secret, **{"ca.crt": (files / "other.crt").read_text()})
    broker = {"type": "Redis", "connection": {"secretRef": {"name": "redis"}}}
    place.apply(a_task_queue("hello", broker=broker))
    message, _ = place.becomes("taskqueue", "hello", "Ready", "False/TLSFailed", SOON)
    assert PASSWORD not in message
    place.secret("redis", **secret, **{"ca.crt": (files / "ours.crt").read_text()})
    place.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected", SOON + 1)
    data = place.there("configmap", "hello-workers")["data"]
    assert data["MILLGATE_BROKER_FILE"] == f"{IN_POD}/uri"
    client = open_queue(data["MILLGATE_QUEUE"], url(port, str(files / "ours.crt")))
    place.apply(a_topic("invoices", "hello", concurrency={"limit": 3}))

    def configured() -> bool:
        return client.configuration().topics["invoices"].limit == 3

    eventually(configured, SOON)
    client.close()
    assert place.there("taskqueue", "hello")["status"]["broker"]["type"] == "Redis"
    assert PASSWORD not in operator.text()


def test_a_server_that_would_throw_tasks_away_is_said_until_it_is_set_right(place: Place) -> None:
    server = Redis("--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru")
    try:
        place.secret("redis", uri=server.url)
        broker = {"type": "Redis", "connection": {"secretRef": {"name": "redis"}}}
        place.apply(a_task_queue("hello", broker=broker))
        message, _ = place.becomes("taskqueue", "hello", "Ready", "False/UnsafeServer", SOON)
        assert "maxmemory-policy noeviction" in message
        assert Admin(server.port)("DBSIZE") == 0, "nothing was entrusted to it"
        Admin(server.port)("CONFIG", "SET", "maxmemory-policy", "noeviction")
        place.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected", 60)
    finally:
        server.close()
