"""RabbitMQ as the conformance suite meets it: one server per session, one queue and one brokerd per test."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from millgate.brokers import open_broker
from millgate.brokers.rabbitmq.broker import RabbitBroker
from support import servers

_numbers = itertools.count(1)


def fresh_queue() -> str:
    """A queue name that nobody has used."""
    return f"t{os.getpid()}.{next(_numbers)}"


def open_queue(queue: str, url: str | None = None, deadline: float = 10.0) -> RabbitBroker:
    """A client of a queue; unless the URL says otherwise it starts no brokerd."""
    url = url or f"{servers.rabbitmq().url}?brokerd=never"
    broker = open_broker(url, queue=queue, deadline=deadline)
    assert isinstance(broker, RabbitBroker)
    return broker


class Brokerd:
    """The brokerd of one queue, as a process of the test's own."""

    def __init__(self, queue: str, log: Path, url: str | None = None) -> None:
        self.queue, self.url, self.log = queue, url or servers.rabbitmq().url, log
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, "-m", "millgate.cli", "brokerd", "--queue", self.queue]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env={**os.environ, "MILLGATE_BROKER": self.url}, stderr=output
            )

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it and wait for that; its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout=20)

    def close(self) -> None:
        """End it, if it is there."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)


class RabbitVenue:
    """A fresh queue; time passes by itself."""

    def __init__(self, folder: Path) -> None:
        self.url: str | None = f"{servers.rabbitmq().url}?brokerd=never"
        self.queue = fresh_queue()
        self.brokerd = Brokerd(self.queue, folder / "brokerd.log")
        self._clients: list[RabbitBroker] = []
        self.client().setup()

    def client(self) -> RabbitBroker:
        """Another client of this queue."""
        broker = open_queue(self.queue)
        self._clients.append(broker)
        return broker

    def pass_time(self, seconds: float) -> None:
        """Wait: the broker's clock cannot be turned."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close all clients and end the brokerd; the streams go with the server."""
        for broker in self._clients:
            broker.close()
        self.brokerd.close()
