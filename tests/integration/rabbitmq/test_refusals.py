"""What a server refuses is said in words that tell what to do, at once and without secrets; what must pass passes."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from urllib.parse import quote

import pytest

from millgate.brokers.base import State
from millgate.brokers.rabbitmq import wire
from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.errors import (
    AuthFailed,
    BrokerRefused,
    BrokerUnavailable,
    ForeignPeer,
    MillgateError,
    PayloadTooLarge,
    PermissionMissing,
    VersionUnsupported,
)
from millgate.queues import Subscription
from support import servers
from support.builders import a_message, a_topic
from support.programs import free_port
from support.rabbitmq import Brokerd
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]

NOTHING = "^$"
_PAGE = Path(__file__).parents[3] / "docs/brokers.md"


def rights(who: str, queue: str) -> dict[str, str]:
    """The least rights, as the page states them."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if line.startswith(f"| {who} | `"))
    found = [cell.replace("QUEUE", re.escape(queue)) for cell in re.findall(r"`([^`]+)`", row)]
    return dict(zip(("configure", "write", "read"), found, strict=True))


def url_of(name: str, granted: dict[str, str]) -> str:
    """The URL as a user with these rights, who is made or changed."""
    server = servers.rabbitmq()
    with suppress(RuntimeError):
        server.ctl("add_user", name, name)
    server.ctl("set_permissions", name, granted["configure"], granted["write"], granted["read"])
    return f"{server.url_as(name, name)}?brokerd=never"


def refused(broker: RabbitBroker) -> MillgateError:
    """What a call ends with, well before its deadline of 10 s."""
    began = monotonic()
    with pytest.raises(MillgateError) as caught:
        broker.publish([a_message()])
    assert monotonic() - began < 5, "it was repeated"
    assert "secret" not in str(caught.value)
    return caught.value


def test_a_wrong_password_is_refused_at_once_and_not_shown(
    queue: str, serve: Serve, open_one: Open
) -> None:
    url = servers.rabbitmq().url_as("guest", "secret")
    assert isinstance(refused(open_one(queue, f"{url}?brokerd=never")), AuthFailed)
    brokerd = serve(url)
    eventually(lambda: not brokerd.running)
    assert "credentials" in brokerd.said()
    assert "secret" not in brokerd.said()


def test_a_virtual_host_that_is_not_there_is_named(
    queue: str, serve: Serve, open_one: Open
) -> None:
    url = f"{servers.rabbitmq().url_as('guest', 'guest', 'nowhere')}?brokerd=never"
    error = refused(open_one(queue, url))
    assert isinstance(error, BrokerRefused)
    assert "add_vhost" in str(error)
    assert "nowhere" in str(error)
    brokerd = serve(url)
    eventually(lambda: not brokerd.running)
    assert "add_vhost" in brokerd.said()


def test_a_virtual_host_that_the_user_may_not_use_is_named(queue: str, open_one: Open) -> None:
    server = servers.rabbitmq()
    with suppress(RuntimeError):
        server.ctl("add_user", "stranger", "stranger")
    error = refused(open_one(queue, f"{server.url_as('stranger', 'stranger')}?brokerd=never"))
    assert isinstance(error, BrokerRefused)
    assert "set_permissions" in str(error)


def test_names_and_passwords_may_have_any_character(
    queue: str, serve: Serve, open_one: Open
) -> None:
    server = servers.rabbitmq()
    user, password, vhost = "us@er:1/a", "p@ss:w/rd#1?x=%41&+ é", "a/b c"
    with suppress(RuntimeError):
        server.ctl("add_user", user, password)
        server.ctl("add_vhost", vhost)
    server.ctl("set_permissions", "-p", vhost, user, ".*", ".*", ".*")
    url = f"{server.url_as(quote(user, ''), quote(password, ''), quote(vhost, ''))}?brokerd=never"
    brokerd = serve(url)
    broker = open_one(queue, url)
    broker.setup()
    broker.publish([message := a_message()])
    assert Hand(broker).one().id == message.id
    for text in (brokerd.said(), str(broker.server())):
        assert "p@ss" not in text
        assert "p%40ss" not in text


def test_the_least_rights_are_enough(queue: str, serve: Serve, open_one: Open) -> None:
    brokerd = serve(url_of("owner", rights("brokerd", queue)), 30_000)
    broker = open_one(queue, url_of("caller", rights("everybody else", queue)))
    broker.setup()
    hand = Hand(broker)
    for _ in range(40):
        broker.publish([a_message(body=b"x" * 2000)])
    assert len(hand.run_all()) == 40
    assert broker.wait_for_work(Subscription(), 0.1) is False
    brokerd.end()
    brokerd.start()
    assert broker.stats().topics["default"].completed == 40
    journals = [name for name in servers.rabbitmq().queues() if f".{queue}." in name]
    assert len(journals) <= 8, "old ones were deleted"


def test_a_client_without_its_right_is_told_which(queue: str, serve: Serve, open_one: Open) -> None:
    serve()
    error = refused(
        open_one(queue, url_of("mute", rights("everybody else", queue) | {"write": NOTHING}))
    )
    assert isinstance(error, PermissionMissing)
    assert "lacks write on amq.default" in str(error)


@pytest.mark.parametrize("right", ["configure", "write", "read"])
def test_a_brokerd_without_one_of_its_rights_is_told_which(
    queue: str, serve: Serve, right: str
) -> None:
    brokerd = serve(url_of("poor", rights("brokerd", queue) | {right: NOTHING}))
    eventually(lambda: not brokerd.running)
    on = "amq.default" if right == "write" else "millgate."
    assert f"the user lacks {right} on {on}" in brokerd.said()
    assert "Traceback" not in brokerd.said()


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where somebody talks in their own way."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
        listener.listen()

        def serve(client: socket.socket) -> None:
            with client, suppress(OSError):
                talk(client)

        def run() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_a_server_of_another_kind_is_told_apart(queue: str, serve: Serve, open_one: Open) -> None:
    def talk(client: socket.socket) -> None:
        client.recv(100)
        client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        client.recv(100)

    with listening(talk) as port:
        url = f"amqp://guest:secret@127.0.0.1:{port}/?brokerd=never"
        assert isinstance(refused(open_one(queue, url)), ForeignPeer)
        brokerd = serve(url)
        eventually(lambda: not brokerd.running, timeout=20)
        assert "does not speak AMQP" in brokerd.said()


def test_a_server_that_is_too_old_is_refused_with_the_reason(
    queue: str, serve: Serve, open_one: Open
) -> None:
    server = servers.rabbitmq()
    version = server.ctl("version").encode()
    older = b"3.8.00000000"[: len(version)]

    def talk(client: socket.socket) -> None:
        """What a server with another version would say."""
        with socket.create_connection(("127.0.0.1", server.port)) as behind:

            def forward() -> None:
                with suppress(OSError):
                    while data := client.recv(65536):
                        behind.sendall(data)
                    behind.shutdown(socket.SHUT_WR)

            threading.Thread(target=forward, daemon=True).start()
            while data := behind.recv(65536):
                client.sendall(data.replace(version, older))

    with listening(talk) as port:
        url = f"amqp://guest:guest@127.0.0.1:{port}/%2F?brokerd=never"
        error = refused(open_one(queue, url))
        assert isinstance(error, VersionUnsupported)
        assert "3.9" in str(error)
        brokerd = serve(url)
        eventually(lambda: not brokerd.running)
        assert re.search(r"RabbitMQ 3\.8.* has no streams", brokerd.said())


def test_a_server_that_opens_no_channel_leaves_no_thread_behind(
    queue: str, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_GRACE", 0.1)
    monkeypatch.setattr(wire.Wire, "_ready", lambda *_: None)
    before = threading.active_count()
    with pytest.raises(BrokerUnavailable, match="did not answer in time"):
        open_one(queue, deadline=1.0).publish([a_message()])
    eventually(lambda: threading.active_count() == before)


def test_where_nobody_listens_a_call_ends_at_its_deadline(queue: str, open_one: Open) -> None:
    broker = open_one(queue, f"amqp://guest:guest@127.0.0.1:{free_port()}/?brokerd=never", 1.0)
    began = monotonic()
    with pytest.raises(BrokerUnavailable, match="refused"):
        broker.publish([a_message()])
    assert 0.5 < monotonic() - began < 6


def test_where_no_brokerd_serves_the_queue_it_is_said_how_to_run_one(
    queue: str, open_one: Open
) -> None:
    broker = open_one(queue, deadline=1.0)
    with pytest.raises(BrokerUnavailable, match=f"millgate brokerd --broker URL --queue {queue}"):
        broker.publish([a_message()])


def test_a_large_result_and_a_large_publish_pass_in_parts(
    queue: str, serve: Serve, open_one: Open
) -> None:
    brokerd = serve()
    broker = open_one(queue, deadline=60.0)
    broker.configure([a_topic(payload_max=2**21)])
    hand = Hand(broker)
    many = [a_message(body=b"b" * 1_000_000) for _ in range(60)]
    assert [receipt.duplicate for receipt in broker.publish(many)] == [False] * 60
    claims = hand.claim(60)
    assert len(claims) == 60
    result = bytes(20_000_000)
    hand.ack(claims[0], result=result)
    assert broker.states([claims[0].id])[0].result == result
    brokerd.end()
    brokerd.start()
    assert broker.states([claims[0].id])[0].result == result
    assert broker.states([claims[59].id])[0].state is State.RUNNING
    with pytest.raises(PayloadTooLarge):
        broker.publish([a_message(body=b"b" * 1_000_000) for _ in range(70)])
