"""The ways by which a client reaches a broker over a socket; each leads through a proxy that can break it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from millgate.brokers import open_broker
from millgate.brokers.base import Broker
from support.brokers import FACTORIES
from support.faults import Address, FaultProxy
from support.working import Hand

#: Seconds that a call of a disturbed client may take.
DEADLINE: Final = 1.2
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Road:
    """A broker by its name in the conformance suite, and how its server is reached."""

    broker: str
    tcp: bool = True  # else by a Unix socket
    query: str = ""  # added to the URL


#: Every broker behind a socket; another one is another line.
ROADS: Final[Mapping[str, Road]] = {
    "local": Road("local", tcp=False),
    "local-tcp": Road("local"),
    "postgres": Road("postgres"),
    "postgres-pooler": Road("postgres", query="pooler=transaction"),
    "rabbitmq": Road("rabbitmq"),
    "redis": Road("redis"),
}


def proxied(url: str, listen: Path | None = None, query: str = "") -> tuple[FaultProxy, str]:
    """A proxy before the server of this URL, on TCP or at a Unix socket, and the URL through it with `query` added."""
    parts = urlsplit(url)
    target: Address = parts.path
    if parts.netloc:
        assert parts.hostname is not None
        target = (parts.hostname, parts.port or 0)
    proxy = FaultProxy(target, listen)
    userinfo = "".join(parts.netloc.rpartition("@")[:2])
    place = f"{userinfo}127.0.0.1:{proxy.port}" if listen is None else ""
    path = parts.path if parts.netloc else str(listen or "")
    query = "&".join(filter(None, (parts.query, query)))
    return proxy, f"{parts.scheme}://{place}{path}" + (f"?{query}" if query else "")


class Ground:
    """One queue on one broker, shared by all cells of a road: each has topics, workers and names of its own."""

    def __init__(self, road: Road, folder: Path) -> None:
        self._road = road
        self._folder = folder
        self.venue = FACTORIES[road.broker](folder)
        #: Undisturbed.
        self.near = self.venue.client()
        #: Runs what a cell has left.
        self.sweeper = Hand(self.near)

    def proxied(self) -> tuple[FaultProxy, str]:
        """A proxy before the server, and the queue's URL through it."""
        assert self.venue.url is not None, "a broker behind a socket has a URL"
        listen = None if self._road.tcp else self._folder / f"{next(_numbers)}.sock"
        return proxied(self.venue.url, listen, self._road.query)

    def serve(self, queue: str) -> None:
        """Have a further queue served, where that takes a process of its own."""
        serve = getattr(self.venue, "serve", None)
        if serve is not None:
            serve(queue)

    def open(self, url: str, queue: str = "") -> Broker:
        """A client with a short deadline."""
        return open_broker(url, queue=queue or self.venue.queue, deadline=DEADLINE)

    def close(self) -> None:
        """Drop the queue."""
        self.venue.close()
