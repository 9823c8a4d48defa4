"""TLS that is asked for is verified: chain and host name, by clients and brokerds, unless the URL says not to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millgate.brokers.base import State
from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.errors import BrokerUnavailable, TLSFailed
from support import certificates
from support.builders import a_message
from support.programs import free_port
from support.rabbitmq import Brokerd
from support.servers import RabbitMQ
from support.wait import eventually

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    certificates.make(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RabbitMQ]:
    """Speaks TLS on one port, nothing encrypted on the other."""
    made = RabbitMQ()
    for name in ("ours.crt", "server.crt", "server.key"):
        copy = made.home / name
        copy.write_bytes((folder / name).read_bytes())
        made.own(copy)
    port = free_port()
    made.configure(
        f"listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.verify = verify_none\n"
        f"ssl_options.cacertfile = {made.home}/ours.crt\n"
        f"ssl_options.certfile = {made.home}/server.crt\nssl_options.keyfile = {made.home}/server.key"
    )
    made.tls_port = port  # type: ignore[attr-defined]
    made.restart()
    yield made
    made.close()


@pytest.fixture
def url(server: RabbitMQ) -> str:
    return f"amqps://guest:guest@127.0.0.1:{server.tls_port}/?brokerd=never"  # type: ignore[attr-defined]


def test_a_server_of_the_right_authority_is_trusted_by_clients_and_brokerds(
    queue: str, serve: Serve, open_one: Open, url: str, folder: Path
) -> None:
    brokerd = serve(f"{url}&ca={folder / 'ours.crt'}", 2_000)
    broker = open_one(queue, f"{url}&ca={folder / 'ours.crt'}")
    messages = [a_message(body=b"x" * 5_000) for _ in range(5)]
    for message in messages:
        broker.publish([message])
    brokerd.end()
    brokerd.start()
    assert broker.states([messages[-1].id])[0].state is State.WAITING


def test_the_authority_can_come_from_the_environment(
    queue: str,
    serve: Serve,
    open_one: Open,
    url: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(f"{url}&ca={folder / 'ours.crt'}")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ours.crt"))
    open_one(queue, url).setup()


def test_a_server_of_another_authority_is_refused(
    queue: str, serve: Serve, open_one: Open, url: str, folder: Path
) -> None:
    for query in (f"&ca={folder / 'other.crt'}", ""):
        with pytest.raises(TLSFailed):
            open_one(queue, url + query).setup()
    brokerd = serve(f"{url}&ca={folder / 'other.crt'}")
    eventually(lambda: not brokerd.running)
    assert "TLS" in brokerd.said()


def test_a_certificate_for_another_name_is_refused(
    queue: str, open_one: Open, url: str, folder: Path
) -> None:
    named = f"{url.replace('127.0.0.1', 'localhost')}&ca={folder / 'ours.crt'}"
    with pytest.raises(TLSFailed):
        open_one(queue, named).setup()


def test_insecure_is_the_only_way_around(
    queue: str, serve: Serve, open_one: Open, url: str
) -> None:
    serve(f"{url}#insecure")
    open_one(queue, f"{url}#insecure").setup()


def test_a_server_without_tls_is_refused_when_tls_is_asked_for(
    queue: str, open_one: Open, server: RabbitMQ, folder: Path
) -> None:
    plain = f"amqps://guest:guest@127.0.0.1:{server.port}/?brokerd=never&ca={folder / 'ours.crt'}"
    with pytest.raises((TLSFailed, BrokerUnavailable)):
        open_one(queue, plain, 2.0).setup()
