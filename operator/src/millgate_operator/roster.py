"""All TaskQueues there are, by what they call their queue: who could have the same tasks as another one.

Listed when somebody asks, and kept for a while: a thousand queues that begin at once need one list, not a thousand.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from millgate.clock import Clock
from millgate_operator.cluster import TASK_QUEUE, Cluster
from millgate_operator.links import Key
from millgate_operator.names import broker_queue

_KEPT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One TaskQueue, as much of it as tells whom it could meet."""

    key: Key
    kind: str  # broker.type
    name: str  # of its queue


class Roster:
    """The TaskQueues of all namespaces that are watched. Safe from several threads."""

    def __init__(self, cluster: Cluster, clock: Clock, namespaces: Sequence[str]) -> None:
        self._cluster, self._clock, self._namespaces = cluster, clock, namespaces
        self._entries: dict[Key, Entry] = {}
        self._listed = float("-inf")
        self._lock = threading.Lock()

    def others(self, key: Key) -> list[Entry]:
        """All but one, which is in the list that this is read from. Raises ClusterError."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self._listed >= _KEPT or key not in self._entries:
                self._entries = {entry.key: entry for entry in self._list()}
                self._listed = now
            return [entry for entry in self._entries.values() if entry.key != key]

    def _list(self) -> list[Entry]:
        return [
            _entry(one)
            for namespace in self._namespaces or (None,)
            for one in self._cluster.list(TASK_QUEUE, namespace)
        ]


def _entry(manifest: Mapping[str, Any]) -> Entry:
    meta, broker = manifest["metadata"], (manifest.get("spec") or {}).get("broker") or {}
    key = (meta["namespace"], meta["name"])
    return Entry(key, broker.get("type", ""), broker.get("prefix") or broker_queue(*key))
