"""The local broker for tests: a brokerd of a test's own, in a folder of its own, ended with it."""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import signal
import tempfile
import time
from pathlib import Path

from millgate.brokers.local.address import parse
from millgate.brokers.local.broker import LocalBroker
from millgate.brokers.local.launch import probe
from millgate.brokers.local.link import Absent
from millgate.clock import SystemClock
from support.wait import eventually


class Daemon:
    """The brokerd behind one URL."""

    def __init__(self, folder: Path, options: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.environ = {
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
            "MILLGATE_PROBE_TIMEOUT": "5s",
        }
        self.path = folder / "b.sock"
        self.options = options
        self.url = f"local://{self.path}?key_file={folder / 'key'}{options}"
        self.address = parse(self.url, self.environ)
        self.clients: list[LocalBroker] = []

    def client(self, queue: str = "millgate", deadline: float = 10.0) -> LocalBroker:
        """A client, whether anybody listens or not; `close` closes it, if the test does not."""
        broker = LocalBroker(self.address, queue, deadline)
        self.clients.append(broker)
        return broker

    @property
    def pid(self) -> int:
        """Of whoever listens."""
        return int(probe(self.address, SystemClock())["pid"])

    def start(self) -> None:
        """Have a brokerd there."""
        broker = self.client()
        broker.setup()
        broker.close()

    def close(self) -> None:
        """Close every client and end brokerd."""
        for client in self.clients:
            client.close()
        self.end()

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it, if it is there, and wait until it is gone."""
        try:
            pid = self.pid
        except Absent:
            return
        os.kill(pid, number)
        eventually(lambda: gone(pid))


def gone(pid: int) -> bool:
    """Whether no process has that number, zombies not counted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@functools.cache
def shared_daemon(_pid: int) -> Daemon:
    """One brokerd for all tests of a process that only need a queue of their own; it ends with the process."""
    folder = Path(tempfile.mkdtemp(prefix="millgate-tests-"))
    daemon = Daemon(folder, "&die_with_parent=on")
    daemon.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return daemon


class LocalVenue:
    """A fresh queue of the shared brokerd, for the conformance suite."""

    def __init__(self, folder: Path) -> None:
        self.daemon = shared_daemon(os.getpid())
        self.url: str | None = self.daemon.url
        self.queue = f"q{secrets.token_hex(6)}"
        self.clients: list[LocalBroker] = []

    def client(self) -> LocalBroker:
        """Another client of the same queue."""
        broker = LocalBroker(self.daemon.address, self.queue, 10.0)
        broker.setup()
        self.clients.append(broker)
        return broker

    def pass_time(self, seconds: float) -> None:
        """The broker's clock is the machine's: really wait."""
        time.sleep(seconds + 0.01)

    def close(self) -> None:
        """Close the clients; the queue ends with its brokerd."""
        for client in self.clients:
            client.close()
