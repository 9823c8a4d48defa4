"""The workers of one queue: as many processes as the autoscaler asks for, emptied before they leave, as pods are."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from millgate.brokers.base import Broker
from millgate.errors import BrokerUnavailable
from millgate.fleet import WorkerRow, WorkerState
from millgate.stats import Stats
from millgate_operator import scaling
from millgate_operator.dev.children import Children
from millgate_operator.dev.programs import Program

#: A worker that ends by itself sooner than this did not live.
_SHORT_LIFE: Final = 10.0
#: So many short lives in a row, and the pool is given up.
MAX_SHORT_LIVES: Final = 5


@dataclass(slots=True)
class Worker:
    """One process. Times are monotonic seconds."""

    name: str
    born: float
    ready_at: float | None = None
    leaving: bool = False
    marked: bool = False


class Pool:
    """Keeps the processes of one queue at the number that the autoscaler decides."""

    def __init__(
        self,
        name: str,
        policy: scaling.ScalingPolicy | None,
        program: Callable[[str], Program],
        children: Children,
        say: Callable[[str], None],
    ) -> None:
        self.name = name
        self.policy = policy
        self.workers: dict[str, Worker] = {}
        self.decision: scaling.Decision | None = None
        self.short_lives = 0
        self._program, self._children, self._say = program, children, say
        self._memory = scaling.Memory()
        self._replicas = 0
        self._numbers = 0

    def tick(self, broker: Broker, now: float) -> Stats | None:
        """Look, decide, act; answers what was read. A broker that is away for a while changes nothing."""
        try:
            stats = broker.stats()
        except BrokerUnavailable:
            stats = None
        if self.policy is None:
            return stats
        if stats is not None:
            self._look(stats, now)
        pool = scaling.Pool(self._replicas, pods(self.workers.values(), stats, now))
        decision, self._memory = scaling.decide(self.policy, self._memory, now, stats, pool)
        self._tell(decision)
        self.decision = decision
        self._act(broker, decision, now)
        return stats

    def ended(self, name: str, code: int, now: float) -> None:
        """A process is gone. One that was not asked to go is replaced with the next tick."""
        worker = self.workers.pop(name, None)
        if worker is None or worker.leaving:
            return
        self._say(f"{name} ended by itself with code {code}")
        self.short_lives = self.short_lives + 1 if now - worker.born < _SHORT_LIFE else 0

    def fill(self, now: float) -> None:
        """Start what is missing."""
        staying = sum(not worker.leaving for worker in self.workers.values())
        for _ in range(self._replicas - staying):
            self._numbers += 1
            name = f"{self.name}-{self._numbers}"
            program = self._program(name)
            self._children.start(name, program.command, program.environ)
            self.workers[name] = Worker(name, now)

    def change(self, program: Callable[[str], Program]) -> bool:
        """Start workers this way from now on. Answers whether it is a new way; if so, those that run are renewed."""
        same = program("") == self._program("")
        self._program = program
        if not same:
            self.renew()
        return not same

    def renew(self) -> None:
        """Replace all workers: new ones start with the next tick, the old ones finish what runs."""
        for name in self.workers:
            self._stop(name)

    def drain(self) -> None:
        """Tell all to stop: they finish what runs."""
        self._replicas = 0
        for name in self.workers:
            self._stop(name)

    def _look(self, stats: Stats, now: float) -> None:
        registered = {row.name for row in stats.workers}
        for worker in self.workers.values():
            if worker.ready_at is None and worker.name in registered:
                worker.ready_at = now

    def _act(self, broker: Broker, decision: scaling.Decision, now: float) -> None:
        try:
            for name in decision.unfence:
                broker.unfence(name)
                self.workers[name].marked = False
            for name in decision.fence:
                broker.fence(name, scaling.FENCE_TTL)
        except BrokerUnavailable:
            return  # nothing is removed that was not seen fenced; the next tick decides again
        for name in decision.mark:
            self.workers[name].marked = True
        for name in decision.remove:
            self._stop(name)
        if decision.replicas is not None:
            self._replicas = decision.replicas
        self.fill(now)

    def _stop(self, name: str) -> None:
        worker = self.workers.get(name)
        if worker is not None and not worker.leaving:
            worker.leaving = True
            self._children.signal(name, signal.SIGTERM)

    def _tell(self, decision: scaling.Decision) -> None:
        if decision.replicas is not None and decision.replicas != self._replicas:
            held = f", limited by {decision.limited_by}" if decision.limited_by else ""
            self._say(
                f"{self.name}: {self._replicas} → {decision.replicas} workers ({decision.reason.value}{held})"
            )
        fresh = [name for name in decision.fence if not self.workers[name].marked]
        if fresh and (self.decision is None or set(fresh) - set(self.decision.fence)):
            self._say(f"{self.name}: {', '.join(fresh)} may claim no more, and leaves when idle")


def pods(workers: Iterable[Worker], stats: Stats | None, now: float) -> tuple[scaling.Pod, ...]:
    """The processes as the autoscaler sees pods. Ready: registered, and not emptied. Pure."""
    rows = {row.name: row for row in stats.workers} if stats is not None else {}
    return tuple(_pod(worker, rows, now) for worker in workers)


def _pod(worker: Worker, rows: Mapping[str, WorkerRow], now: float) -> scaling.Pod:
    row = rows.get(worker.name)
    emptied = row is not None and row.state is WorkerState.FENCED and row.idle
    return scaling.Pod(
        name=worker.name,
        ready=worker.ready_at is not None and not emptied,
        started=worker.ready_at is not None,
        terminating=worker.leaving,
        age=now - worker.born,
        marked=worker.marked,
        start_took=None if worker.ready_at is None else worker.ready_at - worker.born,
    )
