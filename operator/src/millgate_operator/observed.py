"""What was found in the cluster and in the broker, as values. None means unknown, which is never zero. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from millgate.stats import Stats
from millgate_operator.names import DELETION_COST
from millgate_operator.spec import Resolved, TaskQueue


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong: a stable word, and a sentence that says what to do."""

    reason: str
    message: str
    passing: bool = False  # it may end by itself


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection Secret as it was read; `url` is never shown."""

    url: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    version: str = ""  # resourceVersion


@dataclass(frozen=True, slots=True)
class BrokerView:
    """The broker as it was met; `endpoint` has no secret in it. Empty texts: not met."""

    endpoint: str = ""
    version: str = ""
    schema: int | None = None
    revision: int | None = None
    stats: Stats | None = None
    brokerd: str = ""  # the pod that serves a queue on RabbitMQ
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class WorkersView:
    """The Deployment of a pool, and its pods."""

    desired: int = 0
    replicas: int = 0
    ready: int = 0
    updated: int = 0
    generation_seen: bool = False  # its controller has looked at the present template
    stuck: str = ""  # why it makes no progress, in its own words
    pods: tuple[PodView, ...] = ()

    @property
    def rollout(self) -> bool:
        """Whether pods are being replaced."""
        return not self.generation_seen or self.updated < min(self.replicas, self.desired)


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod, as much of it as anybody here reads."""

    name: str
    ready: bool = False
    started: bool = False
    running: bool = False  # its container, at this moment
    terminating: bool = False
    created: float | None = None  # seconds since 1970
    ready_since: float | None = None
    unschedulable_since: float | None = None
    trouble: str = ""  # CrashLooping, ImagePull, ConfigError
    detail: str = ""  # the container's own words
    marked: bool = False


#: Seconds; a container that ended badly sooner than this after its start is one that does not live.
_SHORT_LIFE: Final = 60.0

# --- reading Kubernetes' objects -----------------------------------------------------------------


def workers_view(deployment: Mapping[str, Any], pods: Sequence[PodView]) -> WorkersView:
    """A Deployment read into a value."""
    spec, status = deployment.get("spec", {}), deployment.get("status", {})
    generation = deployment["metadata"].get("generation", 0)
    return WorkersView(
        desired=spec.get("replicas", 1),
        replicas=status.get("replicas", 0),
        ready=status.get("readyReplicas", 0),
        updated=status.get("updatedReplicas", 0),
        generation_seen=status.get("observedGeneration", 0) >= generation,
        stuck=_stuck(status.get("conditions", ())),
        pods=tuple(pods),
    )


def _stuck(conditions: Sequence[Mapping[str, Any]]) -> str:
    for condition in conditions:
        failed = condition["type"] == "ReplicaFailure" and condition["status"] == "True"
        stalled = condition["type"] == "Progressing" and condition["status"] == "False"
        if failed or stalled:
            return str(condition.get("message", ""))
    return ""


def pod_view(pod: Mapping[str, Any], container: str) -> PodView:
    """A pod read into a value; `container` is the one that matters."""
    meta, status = pod["metadata"], pod.get("status", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    ready, scheduled = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
    states = status.get("containerStatuses", ())
    state: Mapping[str, Any] = next((s for s in states if s["name"] == container), {})
    trouble, detail = _pod_trouble(state, [*status.get("initContainerStatuses", ()), *states])
    unschedulable = scheduled.get("status") == "False"
    return PodView(
        name=meta["name"],
        ready=ready.get("status") == "True",
        started=_has_started(state),
        running="running" in state.get("state", {}),
        terminating="deletionTimestamp" in meta or status.get("phase") in ("Failed", "Succeeded"),
        created=seconds(meta.get("creationTimestamp")),
        ready_since=seconds(ready.get("lastTransitionTime"))
        if ready.get("status") == "True"
        else None,
        unschedulable_since=seconds(scheduled.get("lastTransitionTime")) if unschedulable else None,
        trouble=trouble,
        detail=detail or (str(scheduled.get("message", "")) if unschedulable else ""),
        marked=(meta.get("annotations") or {}).get(DELETION_COST, "0").startswith("-"),
    )


def _has_started(state: Mapping[str, Any]) -> bool:
    now, last = state.get("state", {}), state.get("lastState", {})
    return "running" in now or "terminated" in now or bool(last) or state.get("restartCount", 0) > 0


def _pod_trouble(mine: Mapping[str, Any], states: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What ails the container that matters, else one of those without which its pod is not ready."""
    trouble, detail = _container_trouble(mine)
    if trouble:
        return trouble, detail
    for state in states:
        trouble, detail = _container_trouble(state)
        if trouble:
            return trouble, f"container {state['name']}: {detail}"
    return "", ""


def _container_trouble(state: Mapping[str, Any]) -> tuple[str, str]:
    waiting = state.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), str(waiting.get("message", ""))
    if reason == "CrashLoopBackOff" or _tries_again(state):
        return "CrashLooping", _last_words(state)
    if reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"):
        return "ImagePull", message
    if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        return "ConfigError", message
    return "", ""


def _tries_again(state: Mapping[str, Any]) -> bool:
    """Whether a container that ended badly soon after its start has been started again, and is not ready yet: in a
    loop of crashes it is between two waits."""
    last = state.get("lastState", {}).get("terminated", {})
    began, ended = seconds(last.get("startedAt")), seconds(last.get("finishedAt"))
    if state.get("ready") or not last.get("exitCode") or began is None or ended is None:
        return False
    return ended - began < _SHORT_LIFE


def _last_words(state: Mapping[str, Any]) -> str:
    last = state.get("lastState", {}).get("terminated", {})
    code = last.get("exitCode")
    # the kernel's kill for memory shows as OOMKilled or, when the runtime missed it, as a plain 137
    killed = last.get("reason") == "OOMKilled" or code == 137
    cause = "killed, most likely for its memory limit" if killed else f"exit code {code}"
    words = str(last.get("message", "")).strip()
    restarts = state.get("restartCount", 0)
    return f"{cause}, {restarts} restarts" + (f": {words[-300:]}" if words else "")


def seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a Kubernetes time; None stays None."""
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@dataclass(frozen=True, slots=True)
class LastDecision:
    """The autoscaler's last change of mind, and what it says now."""

    desired: int | None
    reason: str
    limited_by: str
    at: float  # seconds since 1970, of the change


@dataclass(frozen=True, slots=True)
class Seen:
    """All that one reconciliation found out about a queue; what `status` judges."""

    queue: TaskQueue
    now: float  # seconds since 1970
    resolved: Resolved | None = None
    spec: Trouble | None = None  # what is wrong with the manifest
    connection: Trouble | None = None  # what is wrong with the Secret or the prefix
    objects: Trouble | None = None  # what kept objects from being applied
    secret_version: str = ""
    broker: BrokerView = BrokerView()
    #: None: there is no Deployment, or `pool` says why it is not known.
    workers: WorkersView | None = None
    pool: Trouble | None = None  # what kept the Deployment or its pods from being read
    cold_start: float | None = None  # seconds
    decision: LastDecision | None = None
    paused: bool = False
