"""One TaskQueue in `millgate dev`: its broker, its resolved policies, its pool and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from millgate.brokers.base import Broker
from millgate.errors import BrokerUnavailable
from millgate.limits import parse_duration
from millgate.queues import TopicPolicy
from millgate.stats import Stats
from millgate_operator.dev import programs
from millgate_operator.dev.children import Children
from millgate_operator.dev.manifests import Manifests
from millgate_operator.dev.pool import Pool
from millgate_operator.dev.screen import Screen
from millgate_operator.dev.tally import Tally
from millgate_operator.errors import InvalidSpec
from millgate_operator.scaling import ScalingPolicy, scaling_policy
from millgate_operator.spec import Resolved, TaskQueue, resolve


@dataclass(slots=True)
class Lane:
    """A queue that is run."""

    queue: TaskQueue
    broker: Broker
    resolved: Resolved
    pool: Pool
    tally: Tally = field(default_factory=Tally)
    stats: Stats | None = None

    @property
    def name(self) -> str:
        """What it is called here."""
        return self.pool.name

    @property
    def policies(self) -> Sequence[TopicPolicy]:
        """The declared topics' policies."""
        return tuple(self.resolved.topics.values())

    @property
    def drain_timeout(self) -> float:
        """Seconds that running tasks may go on when the run ends."""
        workers = self.queue.spec.workers
        return 0.0 if workers is None else parse_duration(workers.drain_timeout)

    def configure(self, screen: Screen) -> None:
        """Put the policies into the broker, as the operator does; topics of an earlier run are undeclared."""
        self.broker.configure(self.policies, self.resolved.queue, replace=True)
        self.tally.begin(self.broker.stats())
        if self.queue.spec.workers is None:
            screen.say(f"{self.name}: spec.workers is not set, so no worker is started")
        elif self.pool.policy is None:
            screen.say(f"{self.name}: autoscaling.mode is External, so no worker is started")

    def edited(self, queue: TaskQueue, manifests: Manifests, start: Start) -> Callable[[], None]:
        """Answers a call that takes over edited manifests: policies at once; workers are replaced when what they are
        started with has changed. Raises InvalidSpec, and that call BrokerUnavailable: then all stays as it was.
        """
        resolved = _resolved(queue, manifests)
        policy = _scaling(queue, resolved)
        program = partial(_program, queue, start.url, manifests, start.environ)

        def take_over() -> None:
            self.broker.configure(tuple(resolved.topics.values()), resolved.queue, replace=True)
            self.queue, self.resolved, self.pool.policy = queue, resolved, policy
            if self.pool.change(program):
                start.screen.say(f"{self.name}: its workers are replaced")

        return take_over

    def tick(self, now: float) -> Stats | None:
        """Look, decide, act; answers what was read, None when the broker was away."""
        stats = self.pool.tick(self.broker, now)
        if stats is not None:
            self.stats = stats
            self.tally.read(stats)
        return stats

    def weigh(self, children: Children) -> None:
        """Note what the workers weigh; more often than they report it, because peaks are short."""
        for name in self.pool.workers:
            self.tally.weigh(name, children.rss(name))

    def last_look(self) -> None:
        """The figures as they are now, without deciding anything."""
        try:
            self.stats = self.broker.stats()
        except BrokerUnavailable:
            return
        self.tally.read(self.stats)


def build(queue: TaskQueue, manifests: Manifests, broker: Broker, start: Start) -> Lane:
    """The lane of one queue. Raises InvalidSpec for Topics that contradict each other or their queue."""
    resolved = _resolved(queue, manifests)
    program = partial(_program, queue, start.url, manifests, start.environ)
    label = manifests.label_of(queue)
    pool = Pool(label, _scaling(queue, resolved), program, start.children, start.screen.say)
    return Lane(queue, broker, resolved, pool)


def _resolved(queue: TaskQueue, manifests: Manifests) -> Resolved:
    resolved = resolve(queue, manifests.topics_of(queue))
    for name, holder in resolved.conflicts.items():
        raise InvalidSpec(f"Topic {name}: its topic name is taken by Topic {holder}")
    for name, complaint in resolved.refused.items():
        raise InvalidSpec(f"Topic {name}: {complaint}")
    return resolved


def _scaling(queue: TaskQueue, resolved: Resolved) -> ScalingPolicy | None:
    return scaling_policy(queue, {policy.name: policy for policy in resolved.topics.values()})


@dataclass(frozen=True, slots=True)
class Start:
    """What a lane needs to start its workers."""

    url: str
    environ: Mapping[str, str]
    children: Children
    screen: Screen


def _program(
    queue: TaskQueue, url: str, manifests: Manifests, environ: Mapping[str, str], name: str
) -> programs.Program:
    return programs.worker_program(queue, name, url, manifests.folder_of(queue), environ)
