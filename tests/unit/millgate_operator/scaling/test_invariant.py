"""No pod with a running task is sent away by a decision: broker, ReplicaSet and scaler as a model, played at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from millgate.fleet import WorkerState
from millgate.stats import Stats
from millgate_operator.scaling import (
    FENCE_TTL,
    Memory,
    Pod,
    Pool,
    ScalingPolicy,
    confirm,
    decide,
)
from support.pools import a_row, readings, replica_set_victims, some_work


@dataclass
class Worker:
    """A pod and the worker in it."""

    name: str
    started: bool = False
    registered: bool = False
    ready: bool = False
    marked: bool = False
    busy: int = 0
    fenced_until: float | None = None
    age: float = 0.0

    def fenced(self, now: float) -> bool:
        return self.fenced_until is not None and now < self.fenced_until


class World:
    """A pool whose pods start, claim, finish, restart and fail their probes while the scaler decides."""

    def __init__(self, random: Random, policy: ScalingPolicy, pods: int) -> None:
        self.random, self.policy = random, policy
        self.now, self.memory = 1000.0, Memory(since=0.0)
        self.replicas, self.number = 0, 0
        self.waiting = self.started = self.completed = 0
        self.workers: dict[str, Worker] = {}
        self.killed_busy: list[str] = []
        self.removed = 0
        self.scale(pods)
        for worker in self.workers.values():
            worker.started = worker.registered = worker.ready = True

    def some(self, able: list[Worker]) -> list[Worker]:
        """At most one of them."""
        return [self.random.choice(sorted(able, key=lambda worker: worker.name))] if able else []

    # --- the world -------------------------------------------------------------------------------

    def send(self) -> None:
        self.waiting += self.random.randint(1, 4)

    def move_on(self) -> None:
        """Pods start, workers register, probes answer."""
        for worker in self.workers.values():
            if self.random.random() < 0.3:
                continue
            if not worker.started:
                worker.started = True
            elif not worker.registered:
                worker.registered = True
            else:
                worker.ready = not (worker.fenced(self.now) and worker.busy == 0)

    def claim(self) -> None:
        able = [
            w
            for w in self.workers.values()
            if w.registered and not w.fenced(self.now) and w.busy < 2
        ]
        for worker in self.some(able) if self.waiting else []:
            worker.busy += 1
            self.waiting -= 1
            self.started += 1

    def finish(self) -> None:
        for worker in self.some([w for w in self.workers.values() if w.busy]):
            worker.busy -= 1
            self.completed += 1

    def probe_fails(self) -> None:
        for worker in self.some([w for w in self.workers.values() if w.ready]):
            worker.ready = False

    def restart(self) -> None:
        """A new incarnation: what it held waits again, and its fence is gone with the old one."""
        for worker in self.some([w for w in self.workers.values() if w.registered]):
            self.waiting += worker.busy
            worker.busy, worker.ready, worker.fenced_until = 0, False, None

    def wait(self) -> None:
        self.pass_time(self.random.choice([1.0, 5.0, 40.0, 150.0, 200.0]))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for worker in self.workers.values():
            worker.age += seconds

    # --- the scaler ------------------------------------------------------------------------------

    def stats(self) -> Stats:
        rows = []
        for worker in self.workers.values():
            if worker.registered:
                fenced = worker.fenced_until is not None and worker.fenced(self.now)
                state = WorkerState.FENCED if fenced else WorkerState.ACTIVE
                left = (worker.fenced_until or 0.0) - self.now if fenced else None
                rows.append(a_row(worker.name, worker.busy, state=state, fence_left=left))
        running = sum(worker.busy for worker in self.workers.values())
        work = some_work(self.waiting, running, started=self.started, completed=self.completed)
        return readings(work, *rows)

    def pool(self) -> Pool:
        pods = tuple(
            Pod(w.name, w.ready, w.started, age=w.age, marked=w.marked)
            for w in self.workers.values()
        )
        return Pool(self.replicas, pods)

    def look(self) -> None:
        self.pass_time(2.0)
        decision, self.memory = decide(
            self.policy, self.memory, self.now, self.stats(), self.pool()
        )
        for name in decision.unfence:
            self.workers[name].fenced_until, self.workers[name].marked = None, False
        for name in decision.fence:
            self.workers[name].fenced_until = self.now + FENCE_TTL
        for name in decision.mark:
            self.workers[name].marked = True
        # the world does not wait for us between the decision and the act
        for happen in self.random.choices(
            [self.claim, self.restart, self.probe_fails, self.finish], k=2
        ):
            happen()
        if decision.remove:
            gone = confirm(decision.remove, self.pool(), self.stats())
            self.removed += len(gone)
            self.scale(self.replicas - len(gone))
        elif decision.replicas is not None:
            self.scale(decision.replicas)

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        while len(self.workers) < replicas:
            self.number += 1
            self.workers[f"pod-{self.number}"] = Worker(f"pod-{self.number}")
        excess = len(self.workers) - replicas
        for pod in replica_set_victims(list(self.pool().pods), excess):
            worker = self.workers.pop(pod.name)
            if worker.busy:
                self.killed_busy.append(worker.name)


ACTIONS = ["look"] * 6 + ["move_on"] * 4 + ["finish"] * 3 + ["claim"] * 2
ACTIONS += ["send", "wait", "probe_fails", "restart"]


@given(
    script=st.lists(st.sampled_from(ACTIONS), min_size=80, max_size=160),
    random=st.randoms(use_true_random=False),
    percent=st.sampled_from([25, 50, 100]),
    minimum=st.integers(0, 2),
    pods=st.integers(2, 6),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a story this long shrinks for minutes
)
def test_nobody_who_works_is_sent_away(
    script: list[str], random: Random, percent: int, minimum: int, pods: int
) -> None:
    policy = ScalingPolicy(
        slots=2, minimum=minimum, maximum=6, stabilization=2.0, idle_after=2.0, in_percent=percent
    )
    world = World(random, policy, pods)
    for action in script:
        getattr(world, action)()
        assert world.killed_busy == []
        assert 0 <= world.replicas <= policy.maximum


def test_the_model_really_shrinks_its_pools() -> None:
    """The test above would say nothing of a scaler that never removes a pod."""
    removed = 0
    for seed in range(20):
        random = Random(seed)
        world = World(
            random, ScalingPolicy(slots=2, maximum=6, stabilization=2.0, idle_after=2.0), 6
        )
        for action in random.choices(ACTIONS, k=200):
            getattr(world, action)()
        removed += world.removed
    assert removed > 20
