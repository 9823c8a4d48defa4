"""The operator's connections: one broker object for each queue, opened again when its Secret changes.

Secrets are written into a private folder, since drivers want certificates and keys as files; it goes with the
process. No URL is ever logged whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from millgate.brokers import open_broker
from millgate.brokers.base import Broker, Server
from millgate.errors import MillgateError
from millgate_operator.names import BROKER_DIR, KEY_DIR
from millgate_operator.observed import Connection

Key = tuple[str, str]  # namespace and name of a TaskQueue
Place = tuple[str, str]  # an endpoint, and what a queue's tasks are in there
Opener = Callable[[str, str, float], Broker]


class SharedConnections:
    """Opens queues' brokers so that those on one server take turns on its connections, as far as the driver can."""

    def __init__(self) -> None:
        # gone with the last broker that uses it: what it is known by has the password in it
        self._shared: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    def __call__(self, url: str, queue: str, deadline: float) -> Broker:
        """The broker of a queue."""
        return open_broker(url, queue=queue, deadline=deadline, shared=self._shared)


@dataclass(slots=True)
class _Link:
    connection: Connection
    queue: str
    broker: Broker
    ready: bool = False  # set up by us
    before: _Link | None = None  # the last one that was, for as long as this one is not


class Links:
    """Open brokers by queue. Safe from several threads."""

    def __init__(self, deadline: float, opener: Opener | None = None) -> None:
        self._deadline, self._open = deadline, opener or SharedConnections()
        self._links: dict[Key, _Link] = {}
        self._places: dict[Place, dict[Key, str]] = {}  # who is where, since when
        self._lock = threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="millgate-operator-"))

    def open(self, key: Key, queue: str, connection: Connection) -> Broker:
        """The queue's broker, set up. Raises MillgateError."""
        with self._lock:
            link = self._links.get(key)
        if link is None or link.connection != connection or link.queue != queue:
            link = self._replace(key, queue, connection)
        if not link.ready:
            link.broker.server()  # bounded by the deadline; a migration may take longer, and is
            link.broker.setup()
            self._settle(link)
        return link.broker

    def get(self, key: Key) -> Broker | None:
        """The queue's broker if it is open and was set up; with a new Secret that does not work, the one of the old."""
        with self._lock:
            link = self._links.get(key)
            if link is not None and not link.ready:
                link = link.before
        return link.broker if link is not None else None

    def ask(self, queue: str, connection: Connection) -> Server:
        """What is behind a connection that is not kept. Raises MillgateError."""
        with self._lock:
            broker = self._opened(queue, connection)
        try:
            return broker.server()
        finally:
            _quietly_close(broker)
            with self._lock:
                self._forget(connection)

    def holds(self, key: Key, place: Place) -> bool:
        """Whether a TaskQueue is known to be in this place, beside others or alone."""
        with self._lock:
            return key in self._places.get(place, ())

    def is_placed(self, key: Key) -> bool:
        """Whether it is known where a TaskQueue's tasks are."""
        with self._lock:
            return any(key in here for here in self._places.values())

    def holder(self, key: Key, created: str, place: Place) -> Key | None:
        """Who has `place` already: the older TaskQueue. None: this one has it now."""
        with self._lock:
            self._displace(key)
            here = self._places.setdefault(place, {})
            here[key] = created
            oldest = min(here, key=lambda one: (here[one], one))
            return None if oldest == key else oldest

    def close(self, key: Key) -> None:
        """Give a queue's connections back, and forget its secrets."""
        with self._lock:
            link = self._links.pop(key, None)
            self._displace(key)
            gone = [one for one in (link, link.before) if one is not None] if link else []
            for one in gone:
                self._forget(one.connection)
        for one in gone:
            _quietly_close(one.broker)

    def close_all(self) -> None:
        """Close everything and remove the folder."""
        for key in list(self._links):
            self.close(key)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __len__(self) -> int:
        """Brokers open."""
        return len(self._links)

    def _replace(self, key: Key, queue: str, connection: Connection) -> _Link:
        with self._lock:
            link = _Link(connection, queue, self._opened(queue, connection))
            old = self._links.get(key)
            self._links[key] = link
            if old is not None and (old.ready or old.before is not None):
                link.before = old if old.ready else old.before
            if old is not None and not old.ready:
                self._forget(old.connection)
        if old is not None and not old.ready:
            _quietly_close(old.broker)
        return link

    def _settle(self, link: _Link) -> None:
        """It works: the one before has had its time."""
        with self._lock:
            link.ready, before, link.before = True, link.before, None
            if before is not None:
                self._forget(before.connection)
        if before is not None:
            _quietly_close(before.broker)

    def _displace(self, key: Key) -> None:
        for place, here in list(self._places.items()):
            here.pop(key, None)
            if not here:
                del self._places[place]

    def _opened(self, queue: str, connection: Connection) -> Broker:
        folder = self._write(connection)
        url = connection.url
        for inside in (BROKER_DIR, KEY_DIR):
            url = url.replace(inside + "/", f"{folder}/")
        return self._open(url, queue, self._deadline)

    def _write(self, connection: Connection) -> Path:
        """The files, which are what their folder is named after: one that is there may be being read."""
        folder = self._place(connection)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in connection.files.items():
            path = folder / name
            if path.exists() and path.read_bytes() == data:
                continue
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
        return folder

    def _forget(self, connection: Connection) -> None:
        """Remove files that no queue needs any more."""
        used = [one for link in self._links.values() for one in (link, link.before) if one]
        if all(one.connection.files != connection.files for one in used):
            shutil.rmtree(self._place(connection), ignore_errors=True)

    def _place(self, connection: Connection) -> Path:
        """Where the files are: queues with equal ones have them in common, and so one URL for one server."""
        digest = hashlib.sha256()
        for name, data in sorted(connection.files.items()):
            digest.update(f"{name} {len(data)} ".encode() + data)
        return self._folder / digest.hexdigest()[:32]


def _quietly_close(broker: Broker) -> None:
    with contextlib.suppress(MillgateError, OSError):
        broker.close()
