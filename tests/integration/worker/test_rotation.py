"""The broker's password is changed while a worker works: it follows the file, and no task notices."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from support import servers
from support.postgres import database_url
from support.redis import Admin

#: Gives a user a password, makes the user if need be, and ends the connections that the user has.
SetPassword = Callable[[str, str], None]


def on_redis(user: str, password: str) -> None:
    admin = Admin(servers.redis().port)
    admin("ACL", "SETUSER", user, "on", "resetpass", f">{password}", "~*", "+@all")
    admin("CLIENT", "KILL", "USER", user)


def on_postgres(user: str, password: str) -> None:
    with psycopg.connect(database_url(), autocommit=True) as admin:
        with suppress(psycopg.errors.DuplicateObject):
            admin.execute(f"CREATE ROLE {user} LOGIN SUPERUSER".encode())
        admin.execute(f"ALTER ROLE {user} PASSWORD '{password}'".encode())
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user]
        )


def on_rabbitmq(user: str, password: str) -> None:
    server = servers.rabbitmq()
    with suppress(RuntimeError):
        server.ctl("add_user", user, password)
        server.ctl("set_permissions", user, ".*", ".*", ".*")
    server.ctl("change_password", user, password)
    server.ctl("close_all_user_connections", user, "a new password")


ON: dict[str, SetPassword] = {
    "postgres": on_postgres,
    "rabbitmq": on_rabbitmq,
    "redis": on_redis,
}


@pytest.fixture
def user() -> str:
    """Nobody yet."""
    return f"user_{os.getpid()}_{secrets.token_hex(3)}"


def url_as(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}:{password}@{parts.hostname}:{parts.port}").geturl()


@pytest.mark.parametrize("bench", list(ON), indirect=True)
@pytest.mark.parametrize("first", ["server", "file"])
def test_a_worker_follows_its_file_to_the_new_password(
    request: pytest.FixtureRequest, bench: Any, tmp_path: Path, user: str, first: str
) -> None:
    set_password = ON[request.node.callspec.params["bench"]]
    file = tmp_path / "uri"

    def change(password: str) -> None:
        steps: list[Callable[[], object]] = [
            lambda: set_password(user, password),
            lambda: file.write_text(url_as(bench.url, user, password)),
        ]
        for step in steps if first == "server" else steps[::-1]:
            step()
            time.sleep(2.0)  # between the two the worker meets what does not fit

    change("first-s3cret")
    bench.configure(lease=60.0)
    worker = bench.ready(children=2, broker=None, broker_file=file)
    running = bench.send("work", str(bench.journal), 6.0)
    bench.until_noted("start")
    change("second-s3cret")
    assert bench.result(bench.send("add", 1, 1), timeout=20) == 2
    states = bench.ends_of([running])
    assert [(state.state, state.attempt) for state in states] == [("succeeded", 1)]
    assert worker.events("broker address changed")
    assert worker.get("/livez")[0] == 200
    assert "s3cret" not in worker.log_file.read_text(encoding="utf-8")
