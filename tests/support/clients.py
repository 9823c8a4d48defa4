"""Clients of queues on servers: opened by tests, closed together; and a venue of the conformance suite on one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from millgate.brokers.base import Broker

B = TypeVar("B", bound=Broker)


class Clients(Generic[B]):
    """Opens clients: of a queue by its name, at a URL."""

    def __init__(self, open_queue: Callable[..., B]) -> None:
        self._open = open_queue
        self._opened: list[B] = []

    def __call__(self, queue: str, url: str | None = None, deadline: float = 10.0) -> B:
        self._opened.append(self._open(queue, url, deadline))
        return self._opened[-1]

    def close(self) -> None:
        """Close all of them."""
        for broker in self._opened:
            broker.close()


class ServerVenue(Generic[B]):
    """A fresh queue on a server whose clock nobody turns: time passes by itself."""

    def __init__(self, open_queue: Callable[..., B], queue: str, url: str) -> None:
        self.url: str | None = url
        self.queue = queue
        self._clients = Clients(open_queue)

    def client(self) -> B:
        """Another client of this queue."""
        return self._clients(self.queue, self.url)

    def pass_time(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close all clients; what they stored goes with the server."""
        self._clients.close()
