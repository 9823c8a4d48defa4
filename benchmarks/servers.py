"""The server that a measurement runs on: started for it on loopback, with its data on disk as in production."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol


class Server(Protocol):
    """A server that can be restarted."""

    def url(self, name: str) -> str:
        """Where a fresh place of that name is."""

    def restart(self) -> None:
        """End it as a crash or an upgrade does, and start it again."""


@dataclass
class Memory:
    """No server: the broker lives in the measuring process."""

    def url(self, name: str) -> str:
        del name
        return "memory://"

    def restart(self) -> None:
        raise SystemExit("memory:// has no server that could be restarted")


class Local:
    """brokerd on a Unix socket, with its journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def _start(self) -> None:
        command = (sys.executable, "-m", "millgate.cli", "brokerd", "--die-with-parent")
        where = ("--listen", str(self._folder / "b.sock"), "--data", str(self._folder / "data"))
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen((*command, *where), stdout=log, stderr=log)
        end = time.monotonic() + 20
        while not (self._folder / "b.sock").exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise SystemExit((self._folder / "log").read_text())
            time.sleep(0.05)

    def url(self, name: str) -> str:
        del name  # queues are told apart by --queue
        return f"local://{self._folder}/b.sock?data={self._folder}/data"

    def restart(self) -> None:
        self.close(hard=True)
        self._start()

    def close(self, hard: bool = False) -> None:
        if self._process is not None:
            (self._process.kill if hard else self._process.terminate)()
            self._process.wait(20)


class Postgres:
    """PostgreSQL with its durability on, as it comes."""

    def __init__(self) -> None:
        from support.servers import Postgres as Kept

        # the tests' servers clean up every five seconds: here it is done as often as elsewhere
        self._server = Kept(fsync="on", autovacuum_naptime="1min")

    def url(self, name: str) -> str:
        self._server.run("-c", f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        return self._server.create_database(name)

    @property
    def version(self) -> str:
        return self._server.run("-tAc", "show server_version").split()[0]

    def restart(self) -> None:
        self._server.kill()
        self._server.start()

    def close(self) -> None:
        self._server.close()


class Redis:
    """Redis as most run it for tasks: with its journal, synced once a second."""

    def __init__(self) -> None:
        from support.servers import Redis as Kept

        self._server = Kept("--appendonly", "yes", "--appendfsync", "everysec")

    def url(self, name: str) -> str:
        del name  # queues are told apart by --queue
        return self._server.url

    def restart(self) -> None:
        from support.redis import Admin

        Admin(self._server.port).kill()
        self._server.stop()
        self._server.start()

    def close(self) -> None:
        self._server.close()


class RabbitMQ:
    """One RabbitMQ node; the first client starts the queue's brokerd, as it does for anybody."""

    def __init__(self) -> None:
        from support.servers import RabbitMQ as Kept

        self._server = Kept()

    def url(self, name: str) -> str:
        del name  # queues are told apart by --queue
        return self._server.url

    def restart(self) -> None:
        self._server.stop()
        self._server.start()

    def close(self) -> None:
        self._server.close()


_SERVERS: Final = {"redis": Redis, "postgres": Postgres, "rabbitmq": RabbitMQ}


@contextmanager
def server(broker: str) -> Iterator[Server]:
    """Start it, and end it whatever happens."""
    if broker == "memory":
        yield Memory()
    elif broker == "local":
        with (
            tempfile.TemporaryDirectory(prefix="mg-bench-") as name,
            closing(Local(Path(name))) as local,
        ):
            yield local
    else:
        with closing(_SERVERS[broker]()) as started:
            yield started
