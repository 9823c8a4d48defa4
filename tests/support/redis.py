"""Redis as the conformance suite meets it: one server per session, one key prefix per test."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis

from millgate.brokers import open_broker
from millgate.brokers.redis import RedisBroker
from support import servers
from support.clients import ServerVenue

_numbers = itertools.count(1)


def fresh_queue() -> str:
    """A queue name that nobody has used."""
    return f"t{os.getpid()}.{next(_numbers)}"


def open_queue(queue: str, url: str | None = None, deadline: float = 10.0) -> RedisBroker:
    """A client of a queue."""
    broker = open_broker(url or servers.redis().url, queue=queue, deadline=deadline)
    assert isinstance(broker, RedisBroker)
    return broker


class RedisVenue(ServerVenue[RedisBroker]):
    """A fresh prefix."""

    def __init__(self, folder: Path, choose: Callable[[], servers.Redis] = servers.redis) -> None:
        super().__init__(open_queue, fresh_queue(), choose().url)
        self.client().setup()


class Admin:
    """An administrator's connection to a server, made anew for each command."""

    def __init__(self, port: int, *login: str) -> None:
        self.port = port
        self._login = login

    def __call__(self, *command: str | bytes | int) -> Any:
        """The reply. Raises the server's error."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock:
            reader = hiredis.Reader()
            requests: list[Any] = [("AUTH", *self._login)] if self._login else []
            for request in [*requests, command]:
                sock.sendall(hiredis.pack_command(request))
                while (reply := reader.gets()) is False:
                    data = sock.recv(1 << 16)
                    if not data:
                        raise ConnectionError("the server closed the connection")
                    reader.feed(data)
                if isinstance(reply, hiredis.ReplyError):
                    raise reply
        return reply

    def info(self, name: str) -> str:
        """One line of INFO."""
        lines: list[str] = self("INFO").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line).get(name, "")

    def kill(self) -> None:
        """End the server the way a crash does."""
        os.kill(int(self.info("process_id")), signal.SIGKILL)

    def freeze(self, seconds: float) -> None:
        """Let the server stand still for a while."""
        process = int(self.info("process_id"))
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(process, signal.SIGCONT)
