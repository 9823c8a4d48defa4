"""What the scaler is told and what it answers. Frozen; unknown is None, never zero. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from millgate.queues import Subscription

#: Seconds that a fence lasts if nobody renews it: a dead operator strands no capacity for longer.
FENCE_TTL: Final = 180.0
#: A fence is renewed when less than this is left of it.
FENCE_RENEW: Final = 120.0
#: Seconds that a pod takes to start, until one has been seen starting.
COLD_START: Final = 15.0


class Reason(StrEnum):
    """Why a pool has the size it is given; stable words for status, events and metrics."""

    NO_WORK = "NoWork"
    IDLE = "Idle"  # no work, and idleAfter has not passed yet
    DUE_SOON = "DueSoon"  # no work now, but delayed work sooner than a pod could start
    RUNNING = "Running"  # what runs decides
    BACKLOG = "Backlog"
    FORECAST = "Forecast"  # what will run when a new pod could have started
    STABILIZING = "Stabilizing"  # less is needed, but more was a moment ago
    MANUAL = "Manual"
    SUSPENDED = "Suspended"
    SIGNAL_LOST = "SignalLost"  # the broker or the cluster did not answer: hold
    ROLLOUT = "Rollout"  # no scale-in while pods are being replaced
    CRASH_LOOP = "CrashLoop"  # no scale-up while new pods do not live
    UNSCHEDULABLE = "Unschedulable"  # no scale-up while pods find no node
    PAUSED = "ScaleInPaused"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """What a pool's manifest says about its size. Times in seconds."""

    slots: int  # tasks that one pod runs at once
    minimum: int = 0
    maximum: int = 10
    target_latency: float = 30.0
    idle_after: float = 300.0
    stabilization: float | None = None  # None: from the cold start
    headroom: float = 0.5  # β of the square-root rule
    up_pods: int = 8
    up_percent: int = 100
    up_period: float = 15.0
    in_percent: int = 25
    in_paused: bool = False
    fixed: int | None = None  # mode Manual: this many, whatever there is to do
    drain: bool = False  # suspended: down to nothing when what runs has ended
    subscription: Subscription = Subscription()
    limits: Mapping[str, int] = field(default_factory=dict)  # topic → most in flight
    queue_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, or one local worker process; its name is the worker's name in the broker's registry."""

    name: str
    ready: bool = False
    started: bool = False  # its container has run at least once, so it may hold work
    running: bool = False  # its container runs at this moment, whatever ails the pod
    terminating: bool = False
    failing: bool = False  # a container of it ends again and again, or cannot be made
    age: float = 0.0  # seconds
    unschedulable: float | None = None  # seconds that no node was found for it
    marked: bool = False  # its deletion cost says: take this one first
    start_took: float | None = None  # seconds from its creation until it was ready


@dataclass(frozen=True, slots=True)
class Pool:
    """The pods as they are now. `replicas` is what the Deployment asks for."""

    replicas: int
    pods: tuple[Pod, ...] = ()
    rollout: bool = False  # pods are being replaced


@dataclass(frozen=True, slots=True)
class Terms:
    """How the number came about, in slots; what `explain` and the metrics show."""

    running: float = 0.0
    backlog: float = 0.0
    forecast: float = 0.0
    headroom: float = 0.0
    cap: float = 0.0
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with the pool now.

    Everything named in `fence` is to be fenced (again, to renew it), everything in `unfence` unfenced, everything
    in `mark` given a low deletion cost. `remove` names pods that hold nothing and may not take anything any more;
    only when it is empty `replicas` can be above the present number. `replicas` None: leave it.
    """

    desired: int | None
    reason: Reason
    limited_by: str = ""  # max, step, or a hold's reason
    replicas: int | None = None
    fence: tuple[str, ...] = ()
    unfence: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    terms: Terms = Terms()
