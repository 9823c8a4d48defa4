"""Posts Events: one for each change of a condition, so that `kubectl describe` tells the story."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from millgate.clock import Clock
from millgate_operator.cluster import Cluster, ClusterError
from millgate_operator.names import MANAGER

_LOG = logging.getLogger(__name__)
_LONGEST: Final = 1000  # bytes; the API server takes 1024


class Recorder:
    """Posts Events about objects; a failure to do so is logged and nothing else."""

    def __init__(self, cluster: Cluster, clock: Clock, instance: str) -> None:
        self._cluster, self._clock, self._instance = cluster, clock, instance

    def post(self, about: Mapping[str, Any], reason: str, note: str, *, warning: bool) -> None:
        """Post one Event about an object."""
        meta = about["metadata"]
        at = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name'][:200]}.{secrets.token_hex(8)}",
                "namespace": meta["namespace"],
            },
            "eventTime": at,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "action": "Reconcile",
            "note": note.encode()[:_LONGEST].decode(errors="ignore"),
            "reportingController": MANAGER,
            "reportingInstance": self._instance or MANAGER,
            "regarding": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
        }
        try:
            self._cluster.create(event)
        except ClusterError as error:
            _LOG.warning("cannot post the event %s: %s", reason, error)
