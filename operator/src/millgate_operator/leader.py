"""Leader election by a coordination.k8s.io Lease: one operator acts, the others wait.

Others' clocks are never compared with ours: a Lease has run out when we have watched it unchanged for its whole
duration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from millgate.clock import Clock
from millgate_operator.cluster import LEASE, Cluster, ClusterError

_LOG = logging.getLogger(__name__)

DURATION: Final = 15.0  # seconds that others wait after our last renewal
DEADLINE: Final = 10.0  # without a renewal for so long we have to assume that we lead no more
RETRY: Final = 2.0


class Leader:
    """One candidate. Not for several threads at once, but `holds`."""

    def __init__(
        self, cluster: Cluster, clock: Clock, lease: tuple[str, str], identity: str
    ) -> None:
        """`lease` is its namespace and name."""
        self._cluster, self._clock = cluster, clock
        self._namespace, self._name = lease
        self._identity = identity
        self._watched: tuple[str, str] = ("", "")  # holder and renewTime as last seen
        self._unchanged_since = clock.monotonic()
        self._renewed: float | None = None

    def holds(self) -> bool:
        """Whether we lead, and may go on to act on it."""
        return self._renewed is not None and self._clock.monotonic() - self._renewed < DEADLINE

    def attempt(self) -> bool:
        """Take or renew the Lease; answers whether we lead. Errors of the cluster count as no."""
        before = self._clock.monotonic()
        try:
            won = self._attempt()
        except ClusterError as error:
            _LOG.warning("the lease could not be reached: %s", error)
            return self.holds()
        self._renewed = before if won else None
        return won

    def release(self) -> None:
        """Give the Lease back, so that another one needs not wait; errors do not matter."""
        try:
            live = self._cluster.get(LEASE, self._namespace, self._name)
            if live is not None and live["spec"].get("holderIdentity") == self._identity:
                live["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._cluster.replace(live)
        except ClusterError as error:
            _LOG.info("the lease was not given back: %s", error)
        self._renewed = None

    def _attempt(self) -> bool:
        live = self._cluster.get(LEASE, self._namespace, self._name)
        if live is None:
            wish = {
                "apiVersion": LEASE[0],
                "kind": LEASE[1],
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._spec({}),
            }
            return self._cluster.create(wish) is not None
        spec = live.get("spec") or {}
        if spec.get("holderIdentity") not in ("", None, self._identity) and not self._ran_out(spec):
            return False
        try:
            # the resourceVersion in it makes this a compare-and-set
            self._cluster.replace(live | {"spec": self._spec(spec)})
        except ClusterError as error:
            if error.status == 409:
                return False
            raise
        return True

    def _ran_out(self, spec: Mapping[str, Any]) -> bool:
        watched = (spec.get("holderIdentity") or "", spec.get("renewTime") or "")
        now = self._clock.monotonic()
        if watched != self._watched:
            self._watched, self._unchanged_since = watched, now
        return now - self._unchanged_since >= (spec.get("leaseDurationSeconds") or DURATION)

    def _spec(self, before: Mapping[str, Any]) -> dict[str, Any]:
        at = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = before.get("holderIdentity") == self._identity
        changes = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": before.get("acquireTime", at) if mine else at,
            "renewTime": at,
            "leaseTransitions": changes if mine or not before else changes + 1,
        }
