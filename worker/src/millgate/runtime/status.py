"""What a worker says of itself: to probes, to the registry, to Prometheus, and to whoever asks /status."""

from __future__ import annotations

import os
from typing import Any, Final

from millgate.fleet import Beat, WorkerState
from millgate.runtime.handle import Child, Phase
from millgate.runtime.parts import Parts
from millgate.runtime.rss import rss_of

#: Seconds without a sign of life from the io thread, and from the broker thread, whose calls have deadlines.
_IO_STUCK: Final = 15.0
_BROKER_STUCK: Final = 90.0
#: Seconds without an answer of the broker after which a worker that has nothing to do is not ready.
_AWAY: Final = 15.0
_NAMES: Final = 20


class Status:
    """Reads; changes nothing. Called from several threads."""

    def __init__(self, parts: Parts) -> None:
        #: Whether this worker has been in the broker's registry; the broker thread says so.
        self.registered = False
        self._parts = parts

    # --- probes ----------------------------------------------------------------------------------

    def alive(self) -> str | None:
        """What is wrong with the loops; never whether the broker answers. None: nothing."""
        parts = self._parts
        if parts.pulse.age() > _IO_STUCK:
            return f"the io thread has not come round for {parts.pulse.age():.0f}s"
        turned = parts.clock.monotonic() - parts.loop.turned
        if self.registered and turned > _BROKER_STUCK:
            return f"the broker thread has not come round for {turned:.0f}s"
        return None

    def ready(self) -> str | None:
        """Why this worker should not count as working; None: it should."""
        parts = self._parts
        if not self.registered:
            return "not registered with the broker yet"
        if not parts.pool.app_known:
            return "no child has imported the app yet"
        if parts.floor.drain.began is not None:
            return "draining"
        if parts.leases.state is WorkerState.FENCED and parts.ledger.empty:
            return "fenced and idle"
        away = parts.connection.down_for
        # A busy one stays ready, or it would be the first to be removed.
        if away > _AWAY and parts.ledger.empty:
            return f"idle, and the broker has not answered for {away:.0f}s"
        return None

    # --- figures ---------------------------------------------------------------------------------

    def beat(self) -> Beat:
        """For the registry."""
        parts = self._parts
        busy = parts.pool.busy
        now = parts.clock.monotonic()
        ages = [child.oldest(now) for child in list(parts.pool.children.values())]
        recycles = parts.metrics.by_label("millgate_recycles_total", "reason")
        return Beat(
            busy=busy,
            buffered=max(0, parts.ledger.active - busy),
            revision=parts.policies.revision,
            rss=parts.memory.total(),
            oldest=max((age for age in ages if age is not None), default=None),
            draining=parts.floor.drain.began is not None,
            detail={"children": parts.pool.ready, "recycles": recycles} | self._unknown(),
        )

    def _unknown(self) -> dict[str, Any]:
        names = dict(list(self._parts.intake.unknown.items())[:_NAMES])
        return {"unknown": names} if names else {}

    def metrics_text(self) -> str:
        """All metrics, the gauges as they are now."""
        parts = self._parts
        put = parts.metrics.set
        busy = parts.pool.busy
        put("millgate_busy", busy)
        put("millgate_buffered", max(0, parts.ledger.active - busy))
        put("millgate_unsettled", parts.ledger.unsettled)
        put("millgate_broker_up", float(parts.connection.up))
        put("millgate_draining", float(parts.floor.drain.began is not None))
        put("millgate_memory_limit_bytes", parts.memory.ceilings.pod)
        put("millgate_memory_used_bytes", parts.memory.usage)
        put("millgate_watch_seconds_total", parts.memory.cpu)
        put("millgate_rss_bytes", rss_of_self(), process="supervisor")
        children = list(parts.pool.children.values())
        put("millgate_rss_bytes", _sum(children), process="children")
        put("millgate_rss_bytes", _largest(children), process="largest child")
        for phase in Phase:
            count = sum(child.phase is phase for child in children)
            put("millgate_children", count, phase=phase.value)
        return parts.metrics.text()

    def as_dict(self) -> dict[str, Any]:
        """All that helps somebody who wonders what this worker does. JSON types, no secrets."""
        parts = self._parts
        now = parts.clock.monotonic()
        ceilings = parts.memory.ceilings
        return {
            "name": parts.ref.name,
            "incarnation": parts.ref.incarnation,
            "state": str(parts.leases.state),
            "broker": parts.connection.name,
            "broker_up": parts.connection.up,
            "revision": parts.policies.revision,
            "draining": parts.floor.drain.began is not None,
            "alive": self.alive() or "ok",
            "ready": self.ready() or "ok",
            "claims": {"active": parts.ledger.active, "unsettled": parts.ledger.unsettled},
            "memory": {
                "usage": parts.memory.usage,
                "pod_limit": ceilings.pod,
                "max_rss": ceilings.soft,
                "hard_max_rss": ceilings.hard,
                "supervisor": rss_of_self(),
            },
            "recycles": parts.metrics.by_label("millgate_recycles_total", "reason"),
            "unknown_tasks": dict(parts.intake.unknown),
            "learned_seconds": parts.runtimes.snapshot(),
            "children": [_child(child, now) for child in list(parts.pool.children.values())],
        }


def rss_of_self() -> int | None:
    """Resident bytes of this process."""
    return rss_of(os.getpid())


def _sum(children: list[Child]) -> int | None:
    sizes = [child.size for child in children if child.size is not None]
    return sum(sizes) if len(sizes) == len(children) else None


def _largest(children: list[Child]) -> int | None:
    return max((child.size for child in children if child.size is not None), default=None)


def _child(child: Child, now: float) -> dict[str, Any]:
    return {
        "pid": child.pid,
        "phase": child.phase.value,
        "leaving_because": str(child.because) if child.because else None,
        "rss": child.size,
        "baseline": child.baseline or None,
        "tasks": child.tasks,
        "seconds": round(now - child.born, 1),
        "buffered": len(child.buffered()),
        "runs": [
            {
                "id": run.claim.id,
                "task": run.task,
                "topic": run.claim.topic,
                "attempt": run.claim.attempt,
                "seconds": round(now - child.table.started_at(seq), 3),
            }
            for seq, run in child.started()
        ],
    }
