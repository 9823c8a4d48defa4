"""PostgreSQL, Redis and RabbitMQ for tests: child processes on free loopback ports, gone when the tests are.

A server belongs to the process that started it: `stop()` ends it by pid, and a keeper process ends it when the tests
are killed. Nothing here talks to a server that runs already. Where the programs are missing, root on Debian installs
them through apt; everybody else is told the packages.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from support.programs import (
    START,
    Folder,
    Kept,
    cache_folder,
    free_port,
    need,
    user_for,
    wait_until_up,
)
from support.rabbitmq_node import Programs, RabbitMQ
from support.wait import eventually

PASSWORD = "correct horse"  # of every server's administrator; the space shows that URLs are quoted


class Postgres:
    """One PostgreSQL server; `superuser` is its administrator, with PASSWORD over TCP and none over the socket."""

    superuser = "postgres"

    def __init__(self, **settings: str) -> None:
        self._user = user_for("postgres")
        self._initdb = need("initdb", _postgres_folders(), ["postgresql"])
        self._folder = Folder(self._user)
        self.data = self._folder.path / "data"
        self.sockets = self._folder.path
        self.log = self._folder.path / "server.log"
        self.port = free_port()
        #: `name=value` of the server's configuration; changed ones hold from the next start.
        self.settings = {
            "fsync": "off",
            "autovacuum_naptime": "5s",
            "max_connections": "200",
            **settings,
        }
        subprocess.run(
            ["cp", "-a", "--reflink=auto", _template(self._initdb, self._user), self.data],
            check=True,
        )
        self._kept: Kept | None = None
        self.start()

    def start(self) -> None:
        """Start the program and wait until it answers queries."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.sockets),
            **self.settings,
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._kept = Kept(
            [str(self._initdb.with_name("postgres")), "-D", str(self.data), *flags],
            stop=signal.SIGINT,
            user=self._user,
            log=self.log,
        )
        kept = self._kept

        def answers() -> bool:
            kept.check()
            return self.run("-tAc", "select 1", check=False) == "1"

        eventually(answers, timeout=START, every=0.05)

    def stop(self) -> None:
        """Stop the program: sessions are ended, data stays."""
        if self._kept is not None:
            self._kept.stop()
            self._kept = None

    def kill(self) -> None:
        """Stop it the way a crash does: SIGQUIT makes the server drop everything, recovery follows the next start."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        if self._kept is not None:
            self._kept.stop()
            self._kept = None

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def url(
        self, database: str = "postgres", *, user: str = superuser, port: int | None = None
    ) -> str:
        """The URL over TCP."""
        quoted = PASSWORD.replace(" ", "%20")
        return f"postgresql://{user}:{quoted}@127.0.0.1:{port or self.port}/{database}"

    def run(self, *arguments: str, check: bool = True) -> str:
        """What psql prints, as the administrator; `arguments` are psql's."""
        done = subprocess.run(
            [self._initdb.with_name("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.sockets,
             "-p", str(self.port), "-U", self.superuser, *arguments],
            capture_output=True, text=True, check=False, env=dict(os.environ, PGDATABASE="postgres"),
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"psql {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def create_database(self, name: str) -> str:
        """Make an empty database and answer its URL."""
        self.run("-c", f'CREATE DATABASE "{name}"')
        return self.url(name)

    def own(self, path: Path) -> None:
        """Hand a file over to the server's account."""
        self._folder.own(path)

    def close(self) -> None:
        """Stop it and delete all that it stored."""
        self.stop()
        self._folder.remove()


def _postgres_folders() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: -float(p.parent.name))


def _template(initdb: Path, user: str) -> Path:
    """A fresh data folder, made once per version of the programs."""
    version = subprocess.run(
        [initdb, "--version"], capture_output=True, text=True, check=True
    ).stdout
    name = "postgres-" + "".join(
        c if c.isalnum() or c == "." else "-" for c in version.split(") ")[-1].strip()
    )
    wanted = cache_folder() / name
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            _make_template(initdb, user, wanted)
    return wanted


def _make_template(initdb: Path, user: str, wanted: Path) -> None:
    folder = Folder(user)
    secret, made = folder.path / "password", folder.path / "data"
    secret.write_text(PASSWORD)
    folder.own(secret)
    identity = {"user": user, "group": user, "extra_groups": []} if user else {}
    subprocess.run(
        [initdb, "-D", made, "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={Postgres.superuser}",
         "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}"],
        check=True, cwd="/", stdout=subprocess.DEVNULL, **identity,  # type: ignore[call-overload]
    )  # fmt: skip
    partial = wanted.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run(["cp", "-a", made, partial], check=True)
    partial.rename(wanted)
    folder.remove()


class PgBouncer:
    """A pooler in transaction mode in front of a PostgreSQL server."""

    def __init__(self, server: Postgres) -> None:
        program = need("pgbouncer", [Path("/usr/sbin")], ["pgbouncer"])
        self._folder = Folder(user_for("postgres"))
        self._server = server
        self.port = free_port()
        users, settings = self._folder.path / "users.txt", self._folder.path / "pgbouncer.ini"
        users.write_text(f'"{server.superuser}" "{PASSWORD}"\n')
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = plain\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 100\n"
        )
        for path in (users, settings):
            self._folder.own(path)
        self._kept = Kept(
            [str(program), str(settings)], stop=signal.SIGINT, user=user_for("postgres"),
            log=self._folder.path / "server.log",
        )  # fmt: skip
        wait_until_up(self._kept, self.port)

    def url(self, database: str) -> str:
        """The URL of a database through the pooler."""
        return self._server.url(database, port=self.port)

    def close(self) -> None:
        """Stop it and delete its files."""
        self._kept.stop()
        self._folder.remove()


class Redis:
    """One Redis server, without persistence unless `arguments` say otherwise. `programs`: a Valkey's."""

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        programs: Programs | None = None,
    ) -> None:
        self._folder = Folder(user_for("redis"))
        self.port = free_port()
        self._arguments, self._environment = arguments, environment
        if programs is None:
            self._program = [str(need("redis-server", [], ["redis-server"]))]
            self._user = user_for("redis")
        else:
            self._program, self._user = (
                programs.command(self._folder, "valkey-server"),
                programs.user,
            )
        self.start()

    def start(self) -> None:
        """Start the program and wait until it accepts connections."""
        command = [*self._program, "--bind", "127.0.0.1", "--port", str(self.port), "--daemonize", "no",
                   "--dir", str(self._folder.path), "--save", "", *self._arguments]  # fmt: skip
        self._kept = Kept(
            command, stop=signal.SIGTERM, user=self._user, log=self._folder.path / "server.log",
            environment=self._environment,
        )  # fmt: skip
        wait_until_up(self._kept, self.port)

    def stop(self) -> None:
        """Stop the program."""
        self._kept.stop()

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def close(self) -> None:
        """Stop it and delete what it stored."""
        self.stop()
        self._folder.remove()


@cache
def postgres() -> Postgres:
    """The session's PostgreSQL, started on first use; for tests that neither stop nor reconfigure it."""
    server = Postgres()
    atexit.register(server.close)
    return server


@cache
def redis() -> Redis:
    """The session's Redis, started on first use."""
    server = Redis()
    atexit.register(server.close)
    return server


@cache
def valkey() -> Redis:
    """The session's Valkey out of Debian 13, started on first use."""
    from support.debian13 import Debian13

    server = Redis(programs=Debian13("valkey-server"))
    atexit.register(server.close)
    return server


@cache
def rabbitmq() -> RabbitMQ:
    """The session's RabbitMQ, started on first use."""
    server = RabbitMQ()
    atexit.register(server.close)
    return server


@cache
def rabbitmq4() -> RabbitMQ:
    """The session's RabbitMQ 4 out of Debian 13, started on first use."""
    from support.debian13 import Debian13

    server = RabbitMQ(programs=Debian13())
    atexit.register(server.close)
    return server
