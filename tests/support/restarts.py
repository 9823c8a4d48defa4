"""Servers of a test's own that keep what they were told over a crash: the queue on them, their end and their start."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from millgate.brokers import open_broker
from millgate.brokers.base import Broker
from support import servers
from support.brokers import Venue
from support.local import Daemon
from support.rabbitmq import Brokerd, at
from support.redis import Admin

_QUEUE = "millgate"
#: Seconds for which a stream must have been there: RabbitMQ 3.10 never finds one again whose node is killed before.
_SETTLED = 3.0


class OwnVenue(Venue, Protocol):
    """A fresh queue on a server that only this test uses."""

    def crash(self) -> None:
        """End the server without giving it time to tidy up."""

    def start(self) -> None:
        """Start it again, with all that it had confirmed."""


class _Own:
    """What they share: clients by URL, closed before the server."""

    url: str | None
    queue = _QUEUE

    def __init__(self) -> None:
        self._clients: list[Broker] = []

    def client(self) -> Broker:
        """Another client of this queue, prepared."""
        assert self.url is not None
        broker = open_broker(self.url, queue=self.queue, deadline=10.0)
        broker.setup()
        self._clients.append(broker)
        return broker

    def pass_time(self, seconds: float) -> None:
        """Servers have clocks of their own."""
        raise NotImplementedError

    def _close_clients(self) -> None:
        for client in self._clients:
            client.close()


class OwnLocal(_Own):
    """A brokerd with its journal."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.daemon = Daemon(folder / "broker", "&die_with_parent=on")
        self.daemon.start()
        self.url = self.daemon.url

    def client(self) -> Broker:
        broker = self.daemon.client(self.queue)
        broker.setup()
        return broker

    def crash(self) -> None:
        self.daemon.end(signal.SIGKILL)

    def start(self) -> None:
        self.daemon.start()

    def close(self) -> None:
        self.daemon.close()


class OwnPostgres(_Own):
    """A server that recovers from its log."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._server = servers.Postgres()
        self.url = self._server.create_database("own")

    def crash(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._close_clients()
        self._server.close()


class OwnRedis(_Own):
    """A server that writes each command to its file before it answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._server = servers.Redis("--appendonly", "yes", "--appendfsync", "everysec")
        self.url = self._server.url

    def crash(self) -> None:
        Admin(self._server.port).kill()
        self._server.stop()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._close_clients()
        self._server.close()


class OwnRabbit(_Own):
    """A node, and the brokerd of the queue, which outlives it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._server = servers.RabbitMQ()
        self.url = at(self._server)
        self._brokerd = Brokerd(self.queue, folder / "brokerd.log", self.url)
        self._made = time.monotonic()

    def crash(self) -> None:
        time.sleep(max(0.0, self._made + _SETTLED - time.monotonic()))
        self._server.stop()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._close_clients()
        self._brokerd.close()
        self._server.close()


#: Broker → makes a queue on a server of its own; the path is a folder of the test's own.
OWN: dict[str, Callable[[Path], OwnVenue]] = {
    "local": OwnLocal,
    "postgres": OwnPostgres,
    "rabbitmq": OwnRabbit,
    "redis": OwnRedis,
}
