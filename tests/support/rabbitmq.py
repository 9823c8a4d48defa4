"""RabbitMQ as the conformance suite meets it: one server per session, one queue and one brokerd per test."""

from __future__ import annotations

import itertools
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika

from millgate.brokers import open_broker
from millgate.brokers.rabbitmq.broker import RabbitBroker
from support import rabbitmq_brokerds, servers
from support.clients import ServerVenue
from support.faults import FaultProxy
from support.rabbitmq_node import RabbitMQ

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

    def __init__(
        self, queue: str, log: Path, url: str | None = None, smallest: int | None = None
    ) -> None:
        self.queue, self.url, self.log = queue, url or servers.rabbitmq().url, log
        self._smallest = smallest
        self.pid = 0
        self._handle = -1
        self.start()

    def start(self) -> None:
        """Start it."""
        self.pid = rabbitmq_brokerds.start(self.queue, self.url, self.log, self._smallest)
        self._handle = os.pidfd_open(self.pid)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._handle >= 0 and not self._ended(0)

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it and wait for that."""
        signal.pidfd_send_signal(self._handle, number)
        assert self._ended(20), self.said()
        os.close(self._handle)
        self._handle = -1

    def freeze(self) -> None:
        """Let it stand still."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def said(self) -> str:
        """All that it has logged."""
        return self.log.read_text()

    def close(self) -> None:
        """End it, if it is there."""
        if self.running:
            self.end(signal.SIGKILL)
        elif self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _ended(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def at(server: RabbitMQ | FaultProxy, query: str = "brokerd=never") -> str:
    """The URL of a server, or of the session's server through a proxy."""
    return f"amqp://guest:guest@127.0.0.1:{server.port}/%2F?{query}"


@contextmanager
def raw(url: str) -> Iterator[Any]:
    """A channel for whatever somebody else may do to a server, with confirms."""
    connection = pika.BlockingConnection(pika.URLParameters(url.partition("?")[0]))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        if connection.is_open:
            connection.close()


class RabbitVenue(ServerVenue[RabbitBroker]):
    """A fresh queue, and who serves it."""

    def __init__(self, folder: Path, choose: Callable[[], RabbitMQ] = servers.rabbitmq) -> None:
        self._server = choose()
        super().__init__(open_queue, fresh_queue(), at(self._server))
        self._folder = folder
        self._brokerds: list[Brokerd] = []
        self.serve(self.queue)
        self.client().setup()

    def serve(self, queue: str) -> None:
        """Have a queue served."""
        log = self._folder / "brokerd.log"
        self._brokerds.append(Brokerd(queue, log, self._server.url))

    def close(self) -> None:
        """Close all clients and end the brokerd."""
        super().close()
        for brokerd in self._brokerds:
            brokerd.close()
