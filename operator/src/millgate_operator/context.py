"""What everything that acts shares: clients, queues of work, and what is known of each pool between two looks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from millgate.clock import Clock
from millgate.stats import Stats
from millgate_operator.apply import Applier
from millgate_operator.cluster import Cluster
from millgate_operator.events import Recorder
from millgate_operator.links import Key, Links
from millgate_operator.metrics import Metrics
from millgate_operator.observed import LastDecision, Trouble, WorkersView
from millgate_operator.roster import Roster
from millgate_operator.scaling import Memory, ScalingPolicy, Terms
from millgate_operator.settings import OperatorSettings
from millgate_operator.spec import TaskQueue
from millgate_operator.workqueue import WorkQueue


@dataclass(slots=True)
class PoolState:
    """One queue between two looks at it. Only the thread that has its key in work writes to it."""

    queue: TaskQueue
    policy: ScalingPolicy | None
    memory: Memory = field(default_factory=Memory)
    decision: LastDecision | None = None
    terms: Terms = field(default_factory=Terms)
    stats: Stats | None = None
    trouble: Trouble | None = None
    failures: int = 0  # looks in a row that the broker did not answer
    view: WorkersView | None = None
    version: str = ""  # of the Deployment that `view` shows
    viewed: float = float("-inf")  # monotonic
    stirred: int = 0  # changes of its Deployment and pods that the watch has told of
    viewed_at: int = -1  # how many of them `view` knows
    secret_seen: float = 0.0
    secret_version: str = ""
    told: object = None  # what the last look asked a reconciliation for
    told_at: float = float("-inf")


class Pools:
    """The queues that are looked at. Safe from several threads."""

    def __init__(self) -> None:
        self._pools: dict[Key, PoolState] = {}
        self._lock = threading.Lock()

    def put(
        self, key: Key, queue: TaskQueue, policy: ScalingPolicy | None, secret_version: str
    ) -> PoolState:
        """Enter a queue, or tell what it is like now; what was learnt of it stays."""
        with self._lock:
            state = self._pools.get(key)
            if state is None or state.queue.meta.uid != queue.meta.uid:
                state = self._pools[key] = PoolState(queue, policy)
            state.queue, state.policy, state.secret_version = queue, policy, secret_version
            return state

    def get(self, key: Key) -> PoolState | None:
        """What is known of a queue."""
        with self._lock:
            return self._pools.get(key)

    def drop(self, key: Key) -> None:
        """Forget a queue."""
        with self._lock:
            self._pools.pop(key, None)

    def all(self) -> list[tuple[Key, PoolState]]:
        """Every queue."""
        with self._lock:
            return list(self._pools.items())


@dataclass(slots=True)
class Context:
    """Handed to everything that acts."""

    cluster: Cluster
    links: Links
    roster: Roster
    applier: Applier
    recorder: Recorder
    clock: Clock
    settings: OperatorSettings
    reconciles: WorkQueue[Key]
    looks: WorkQueue[Key]
    metrics: Metrics = field(default_factory=Metrics)
    pools: Pools = field(default_factory=Pools)
    blocked: dict[Key, float] = field(default_factory=dict)  # since when, monotonic
    written: dict[tuple[str, str, str], float] = field(default_factory=dict)  # status: when

    def tidy(self, age: float) -> None:
        """Forget statuses that were written longer ago than `age` seconds; their objects may be gone."""
        until = self.clock.monotonic() - age
        for key, at in list(self.written.items()):
            if at < until:
                self.written.pop(key, None)


def make_context(
    cluster: Cluster,
    clock: Clock,
    settings: OperatorSettings,
    metrics: Metrics,
    links: Callable[[float], Links] = Links,
) -> Context:
    """A context with everything in it."""
    return Context(
        cluster=cluster,
        links=links(settings.broker_deadline),
        roster=Roster(cluster, clock, settings.namespaces),
        applier=Applier(cluster),
        recorder=Recorder(cluster, clock, settings.identity),
        clock=clock,
        settings=settings,
        reconciles=WorkQueue(clock),
        looks=WorkQueue(clock),
        metrics=metrics,
    )
