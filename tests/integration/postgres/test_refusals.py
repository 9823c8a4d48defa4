"""What a server refuses is said in words that tell what to do, at once and without secrets."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from time import monotonic

import psycopg
import pytest

from millgate.brokers import open_broker
from millgate.brokers.base import CancelState, State
from millgate.brokers.postgres import PostgresBroker
from millgate.errors import (
    AuthFailed,
    BrokerRefused,
    BrokerUnavailable,
    ForeignPeer,
    InvalidInput,
    PermissionMissing,
    UnsafeServer,
)
from millgate.queues import Subscription
from support import servers
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url, open_queue
from support.programs import free_port
from support.servers import PASSWORD, Postgres
from support.working import Hand


@pytest.fixture
def user() -> Iterator[str]:
    """A user with a difficult password and no rights."""
    name = f"user_{os.getpid()}"
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f"CREATE USER {name} PASSWORD 'p@ss:w/o#rd %41?&=+é'")
        yield name
        admin.execute(f"DROP OWNED BY {name} CASCADE")
        admin.execute(f"DROP USER {name}")


def _as(user: str, password: str) -> str:
    return database_url().replace(
        f"postgres:{PASSWORD.replace(' ', '%20')}@", f"{user}:{password}@"
    )


def test_a_wrong_password_is_refused_at_once_and_not_repeated(queue: str) -> None:
    client = open_queue(queue, _as("postgres", "wrong-secret"))
    begun = monotonic()
    with pytest.raises(AuthFailed, match="credentials") as caught:
        client.setup()
    assert monotonic() - begun < 5.0
    assert "wrong-secret" not in str(caught.value)
    client.close()


def test_a_password_may_have_any_character(queue: str, user: str) -> None:
    client = open_queue(queue, _as(user, "p%40ss%3Aw%2Fo%23rd%20%2541%3F%26%3D%2B%C3%A9"))
    with pytest.raises(PermissionMissing):  # it got in
        client.setup()
    client.close()


def test_an_unknown_database_is_named(queue: str) -> None:
    client = open_queue(queue, servers.postgres().url("no_such_database"))
    with pytest.raises(BrokerRefused, match="create it"):
        client.setup()
    client.close()


def test_missing_rights_name_the_grant(broker: PostgresBroker, queue: str, user: str) -> None:
    url = _as(user, "p%40ss%3Aw%2Fo%23rd%20%2541%3F%26%3D%2B%C3%A9")
    stranger, guest = open_queue("elsewhere", url), open_queue(queue, url)
    with pytest.raises(PermissionMissing, match="GRANT CREATE ON DATABASE"):
        stranger.setup()
    with pytest.raises(PermissionMissing, match="GRANT USAGE ON SCHEMA"):
        guest.publish([a_message()])
    schema = broker.target.schema
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {user}')
        with pytest.raises(PermissionMissing, match=r"GRANT .* ON ALL"):
            guest.publish([a_message()])
        tables = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"
        admin.execute(f'GRANT {tables} IN SCHEMA "{schema}" TO {user}')
        with pytest.raises(PermissionMissing, match="USAGE, SELECT ON ALL SEQUENCES"):
            guest.publish([a_message()])
        admin.execute(f'GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA "{schema}" TO {user}')
    guest.setup()  # nothing to create: rights on the data are enough
    _use(guest)
    for client in (stranger, guest):
        client.close()


def _use(client: PostgresBroker) -> None:
    """Verbs of every kind."""
    client.configure([a_topic(limit=5, key_limit=1)])
    first, second, *others = some_messages(4, key="k")
    client.publish([first, second, *others, a_message(unique="u", delay=60.0)])
    hand = Hand(client)
    hand.bury(hand.one())
    assert client.replay([first.id]) == [first.id]
    hand.ack(hand.one(), result=b"1")
    assert client.wait([second.id], 5.0)[0].state is State.SUCCEEDED
    assert client.cancel([others[0].id]) == [CancelState.REMOVED]
    client.pause("default", True)
    assert client.wait_for_work(Subscription(), 0.1) is False
    assert client.acquire("lock", "me", 5.0) is not None
    assert client.fire("daily", 100.0, [a_message()])
    assert client.purge("default") == 4
    client.tick()
    client.unregister(hand.worker)
    assert client.stats().topics["default"].waiting == 0


def test_a_read_only_server_is_unsafe(queue: str, user: str) -> None:
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f"ALTER USER {user} SET default_transaction_read_only = on")
    client = open_queue(queue, _as(user, "p%40ss%3Aw%2Fo%23rd%20%2541%3F%26%3D%2B%C3%A9"))
    with pytest.raises(UnsafeServer, match="primary"):
        client.setup()
    client.close()


def test_no_connection_left_says_what_to_raise(own_server: Postgres, queue: str) -> None:
    own_server.settings["max_connections"] = "4"
    own_server.settings["superuser_reserved_connections"] = "0"
    own_server.restart()
    taken = [psycopg.connect(own_server.url()) for _ in range(4)]
    client = open_queue(queue, own_server.url(), deadline=2.0)
    with pytest.raises(BrokerUnavailable, match="max_connections"):
        client.setup()
    taken.pop().close()
    client.setup()
    for connection in taken:
        connection.close()
    client.close()


def test_nobody_listening_is_unavailable_within_the_deadline(queue: str) -> None:
    client = open_queue(queue, f"postgresql://u:p@127.0.0.1:{free_port()}/d", deadline=1.0)
    begun = monotonic()
    with pytest.raises(BrokerUnavailable, match="cannot be reached"):
        client.stats()
    assert monotonic() - begun < 5.0
    client.close()


def test_something_else_that_listens_is_foreign(queue: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:

        def serve() -> None:
            peer, _ = web.accept()
            peer.recv(100)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()

        threading.Thread(target=serve, daemon=True).start()
        port = web.getsockname()[1]
        client = open_queue(queue, f"postgresql://u:p@127.0.0.1:{port}/d", deadline=3.0)
        with pytest.raises(ForeignPeer, match="not PostgreSQL"):
            client.stats()
        client.close()


def test_texts_that_cannot_be_stored_are_refused(broker: PostgresBroker) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        broker.acquire("a\x00b", "me", 5.0)
    assert broker.locks() == []


@pytest.mark.parametrize(
    "name",
    ["a\x00b", "\ud800", "".join(map(chr, range(256, 9000)))],
    ids=["NUL", "surrogate", "long"],
)
def test_a_name_that_cannot_be_stored_is_refused(broker: PostgresBroker, name: str) -> None:
    with pytest.raises(InvalidInput):
        broker.acquire(name, "h", 5)
    with pytest.raises(InvalidInput):
        broker.wait([name], 0.1)
    assert broker.locks() == []


def test_a_full_disk_is_refused_and_heals(own_server: Postgres, queue: str) -> None:
    client = open_queue(queue, own_server.url())
    client.setup()
    with (
        psycopg.connect(own_server.url(), autocommit=True) as admin,
        _small_disk(own_server) as folder,
    ):
        admin.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        admin.execute(f'ALTER TABLE "{queue}".msg SET TABLESPACE small')
        body = os.urandom(200_000)
        with pytest.raises(BrokerRefused, match="disk is full"):
            _fill(client, body)
        stored = client.stats().topics["default"].waiting
        assert stored is not None
        assert 0 < stored < 50
        admin.execute(f'ALTER TABLE "{queue}".msg SET TABLESPACE pg_default')
        admin.execute("DROP TABLESPACE small")
        client.publish([a_message(body=body)])
        assert len(Hand(client).claim(100)) == stored + 1
    client.close()


def _fill(client: PostgresBroker, body: bytes) -> None:
    for _ in range(50):
        client.publish([a_message(body=body)])


class _small_disk:  # noqa: N801 -- used like a function
    """A folder for the server on a file system of four megabytes; needs root, as CI has it."""

    def __init__(self, server: Postgres) -> None:
        self._folder = server.sockets / "small"

    def __enter__(self) -> str:
        self._folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", self._folder], check=True)
        data = self._folder / "data"
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        return str(data)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self._folder], check=True)


def test_a_server_that_is_away_is_met_by_setup_within_the_usual_deadline() -> None:
    broker = open_broker(f"postgresql://127.0.0.1:{free_port()}/none", deadline=0.5)
    began = monotonic()
    with pytest.raises(BrokerUnavailable):
        broker.setup()
    assert monotonic() - began < 10.0
    broker.close()
