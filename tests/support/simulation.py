"""Hours of a pool in a second: arrivals, pods that take time to start, and the real scaler deciding between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from millgate.fleet import WorkerState
from millgate_operator.scaling import FENCE_TTL, Memory, Pod, Pool, ScalingPolicy, confirm, decide
from support.pools import a_row, a_topic_reading, readings, replica_set_victims


@dataclass
class SimPod:
    """One pod: when it can work, what it runs (the times at which runs end), and its fence."""

    name: str
    born: float
    works_from: float
    ends: list[float] = field(default_factory=list)
    fenced_until: float = 0.0
    marked: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a simulated time came to."""

    killed: int
    pod_hours: float
    waits: tuple[float, ...]
    most_pods: int
    reversals: int
    pods_at_end: int

    def wait(self, share: float) -> float:
        """The wait that this share of the tasks did not exceed."""
        return sorted(self.waits)[int(share * (len(self.waits) - 1))]


class Simulation:
    """One topic, one pool, one second per step."""

    def __init__(
        self, policy: ScalingPolicy, cold_start: float = 15.0, limit: int | None = None
    ) -> None:
        self.policy, self.cold_start, self.limit = policy, cold_start, limit
        self.now, self.number = 0.0, 0
        self.memory = Memory(since=-1000.0)
        self.pods: dict[str, SimPod] = {}
        self.replicas = policy.minimum
        self.queue: deque[tuple[float, float]] = deque()  # (arrived, takes)
        self.started = self.completed = self.killed = self.reversals = self.most = 0
        self.waits: list[float] = []
        self.pod_seconds, self.direction = 0.0, 0
        self._fill()

    def run(self, seconds: int, arrive: Callable[[int], list[float]]) -> Outcome:
        """`arrive` answers how long each task takes that arrives in a second."""
        for second in range(seconds):
            self.now = float(second)
            self.queue.extend((self.now, takes) for takes in arrive(second))
            self._work()
            if second % 5 == 0:
                self._look()
            self.pod_seconds += len(self.pods)
            self.most = max(self.most, len(self.pods))
        return Outcome(
            self.killed,
            self.pod_seconds / 3600,
            tuple(self.waits),
            self.most,
            self.reversals,
            len(self.pods),
        )

    def running(self) -> int:
        return sum(len(pod.ends) for pod in self.pods.values())

    def _work(self) -> None:
        for pod in self.pods.values():
            before = len(pod.ends)
            pod.ends = [end for end in pod.ends if end > self.now]
            self.completed += before - len(pod.ends)
        for pod in self.pods.values():
            able = self.now >= pod.works_from and self.now >= pod.fenced_until
            while able and self.queue and len(pod.ends) < self.policy.slots and self._allowed() > 0:
                arrived, takes = self.queue.popleft()
                self.waits.append(self.now - arrived)
                pod.ends.append(self.now + takes)
                self.started += 1

    def _allowed(self) -> int:
        return 10**9 if self.limit is None else self.limit - self.running()

    def _fenced(self, pod: SimPod) -> bool:
        return self.now < pod.fenced_until

    def _readings(self):  # type: ignore[no-untyped-def]
        rows = [
            a_row(
                pod.name,
                len(pod.ends),
                state=WorkerState.FENCED if self._fenced(pod) else WorkerState.ACTIVE,
                fence_left=pod.fenced_until - self.now if self._fenced(pod) else None,
            )
            for pod in self.pods.values()
            if self.now >= pod.works_from
        ]
        claimable = max(0, min(len(self.queue), self._allowed()))
        topic = a_topic_reading(
            waiting=len(self.queue),
            claimable=claimable,
            leased=self.running(),
            started=self.started,
            completed=self.completed,
            oldest=self.now - self.queue[0][0] if claimable else None,
        )
        return readings({"default": topic}, *rows)

    def _pool(self) -> Pool:
        pods = []
        for pod in self.pods.values():
            works = self.now >= pod.works_from
            ready = works and not (self._fenced(pod) and not pod.ends)
            took = pod.works_from - pod.born if works else None
            age = self.now - pod.born
            pods.append(Pod(pod.name, ready, works, age=age, marked=pod.marked, start_took=took))
        return Pool(self.replicas, tuple(pods))

    def _look(self) -> None:
        decision, self.memory = decide(
            self.policy, self.memory, self.now, self._readings(), self._pool()
        )
        for name in decision.unfence:
            self.pods[name].fenced_until, self.pods[name].marked = 0.0, False
        for name in decision.fence:
            self.pods[name].fenced_until = self.now + FENCE_TTL
        for name in decision.mark:
            self.pods[name].marked = True
        if decision.remove:
            gone = confirm(decision.remove, self._pool(), self._readings())
            self._scale(self.replicas - len(gone))
        elif decision.replicas is not None:
            self._scale(decision.replicas)

    def _scale(self, replicas: int) -> None:
        direction = 1 if replicas > self.replicas else -1
        self.reversals += direction == -self.direction
        self.direction, self.replicas = direction, replicas
        for victim in replica_set_victims(list(self._pool().pods), len(self.pods) - replicas):
            self.killed += len(self.pods.pop(victim.name).ends)
        self._fill()

    def _fill(self) -> None:
        while len(self.pods) < self.replicas:
            self.number += 1
            name = f"pod-{self.number}"
            self.pods[name] = SimPod(name, self.now, self.now + self.cold_start)
