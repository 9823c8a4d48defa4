"""Tells whether the way from the API server through the watch to our handlers still works.

A Lease of its own is renewed every few seconds; each renewal must come back as an event. A watch that is silent,
dead or stuck shows in nothing else, and an operator that is blind must not look healthy.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Final

from millgate.clock import Clock
from millgate_operator.cluster import Cluster
from millgate_operator.names import LABEL_MANAGED, MANAGER

#: Seconds between two renewals.
EVERY: Final = 10.0


class Canary:
    """When the last sign of life came through the watch. Safe from several threads."""

    def __init__(self, cluster: Cluster, clock: Clock, namespace: str, name: str) -> None:
        self._cluster, self._clock = cluster, clock
        self.namespace, self.name = namespace, name
        self._seen: float | None = None
        self._began: float | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Count from now."""
        with self._lock:
            self._began = self._seen = self._clock.monotonic()

    def seen(self) -> None:
        """An event about the Lease arrived."""
        with self._lock:
            self._seen = self._clock.monotonic()

    def age(self) -> float | None:
        """Seconds since the last sign of life; None: not begun."""
        with self._lock:
            return None if self._seen is None else self._clock.monotonic() - self._seen

    def sing(self) -> None:
        """Renew the Lease, so that an event comes. Raises ClusterError."""
        at = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._cluster.apply(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": self.name,
                    "namespace": self.namespace,
                    "labels": {LABEL_MANAGED: MANAGER},
                },
                "spec": {"holderIdentity": MANAGER, "renewTime": at},
            }
        )
