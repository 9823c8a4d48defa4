"""Queues that are told the same decide the same: one stored and read back, one that somebody looked at in between, one
whose clock is set now and then."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from millgate.brokers.base import Ask
from millgate.brokers.core import Core
from millgate.errors import MillgateError
from millgate.fleet import Beat, WorkerInfo
from millgate.limits import Rate
from millgate.message import ClaimRef, Message
from millgate.outcome import Reason
from millgate.queues import Ordering, QueuePolicy, Subscription, TopicPolicy
from millgate.settlement import Ack, Bury, Charge, Later, Settlement
from support.builders import a_message, a_worker

TOPICS = "abcd"
WORKERS = [a_worker(f"w{number}") for number in range(3)]
STEPS = 300


@dataclass
class Twins:
    """Queues that are told the same, and whatever a random history of them needs."""

    dice: random.Random
    cores: list[Core]
    now: float = 2.0**20
    expiry: float | None = 30.0
    held: list[ClaimRef] = field(default_factory=list)
    count: int = 0

    def tell(self, what: Callable[[Core], Any]) -> Any:
        """Tell all of them; what they answer is the same."""
        answers = []
        for core in self.cores:
            try:
                answers.append(what(core))
            except MillgateError as error:
                answers.append(repr(error))
        assert all(answer == answers[0] for answer in answers), f"at {self.now}"
        return answers[0]

    def step(self) -> None:
        """One random verb, at or after the last one's time. Sums of these times are exact, whatever the clock says."""
        self.now += self.dice.choice(
            [0.0, 1 / 128, 0.3125, 1.125, 1.125, 31.0 if self.count % 50 == 49 else 0.0]
        )
        verbs = [self.publish] * 6 + [self.claim] * 7 + [self.settle] * 4
        verbs += [self.extend, self.cancel, self.replay, self.unregister, self.steer]
        self.dice.choice(verbs)()

    def publish(self) -> None:
        dice, messages = self.dice, []
        for _ in range(dice.randint(1, 4)):
            self.count += 1
            unique = dice.choice([None, None, None, f"u{dice.randint(1, 5)}"])
            messages.append(
                a_message(
                    id=f"m{self.count}",
                    topic=dice.choice(TOPICS),
                    priority=dice.choice([5, 5, 5, 7]),
                    key=dice.choice([None, "k1", "k2"]),
                    delay=dice.choice([None, None, None, 2.0]),
                    expires_in=dice.choice([None, None, self.expiry]),
                    unique=unique,
                    unique_for=dice.choice([None, 3.0]) if unique else None,
                )
            )
        self.tell(lambda core: core.publish(self.now, messages))

    def claim(self) -> None:
        worker, n = self.dice.choice(WORKERS), self.dice.randint(1, 3)
        self.tell(lambda core: core.register(self.now, worker, WorkerInfo()))
        claimed = self.tell(lambda core: core.claim(self.now, worker, Ask(Subscription(), n), ()))
        self.held += [claim.ref for claim in claimed.claims]

    def settle(self) -> None:
        if not self.held:
            return
        ref = self.held.pop(self.dice.randrange(len(self.held)))
        choices: list[Settlement] = [
            Ack(ref, b"r", 5.0),
            Ack(ref, None, 0),
            Later(ref, self.dice.choice([0.0, 2.0]), Charge.FAILURE),
            Bury(ref, Reason.REJECTED),
        ]
        settlement = self.dice.choice(choices)
        self.tell(lambda core: core.settle(self.now, [settlement]))

    def extend(self) -> None:
        worker, refs = self.dice.choice(WORKERS), self.held[:2]
        self.tell(lambda core: core.extend(self.now, worker, refs, Beat()))

    def cancel(self) -> None:
        wanted = [f"m{self.dice.randint(1, self.count or 1)}"]
        self.tell(lambda core: core.cancel(self.now, wanted))

    def replay(self) -> None:
        wanted = [letter.id for letter in self.cores[0].dead(self.now)][:2]
        self.tell(lambda core: core.replay(self.now, wanted))

    def steer(self) -> None:
        worker = self.dice.choice(WORKERS)
        self.tell(lambda core: core.fence(self.now, worker.name, 3.0))
        self.tell(lambda core: core.acquire(self.now, "lock", worker.name, 3.0))

    def unregister(self) -> None:
        worker = self.dice.choice(WORKERS)
        self.tell(lambda core: core.unregister(self.now, worker))


def configured(dice: random.Random, *cores: Core) -> Twins:
    """Queues with topics of every kind."""
    policies = []
    for name in TOPICS:
        ordering = dice.choice([Ordering.NONE, Ordering.NONE, Ordering.KEY, Ordering.FIFO])
        free = ordering is Ordering.NONE
        policies.append(
            TopicPolicy(
                name,
                weight=dice.choice([1, 2, 5]),
                priority=dice.choice([5, 5, 5, 4]),
                limit=None if ordering is Ordering.FIFO else dice.choice([None, None, 1, 3]),
                key_limit=dice.choice([None, None, 1, 2]) if free else None,
                lease=dice.choice([5.0, 20.0]),
                boost_after=dice.choice([0.0, 3.0]),
                ordering=ordering,
                rate=dice.choice([None, None, Rate(2, 1.0)]),
            )
        )
    queue = QueuePolicy(limit=dice.choice([None, 4]))
    twins = Twins(dice, list(cores))
    twins.tell(lambda core: core.configure(twins.now, policies, queue))
    return twins


@pytest.mark.parametrize("seed", range(40))
def test_a_queue_that_was_stored_and_read_back_goes_on_as_it_would_have(seed: int) -> None:
    twins = configured(random.Random(seed), Core("s"))
    for step in range(STEPS):
        if step == STEPS // 2:
            twins.cores.append(Core.load(twins.cores[0].dump()))
        twins.step()


@pytest.mark.parametrize("seed", range(40))
def test_it_makes_no_difference_who_looks_at_a_queue_and_when(seed: int) -> None:
    dice = random.Random(seed)
    twins = configured(random.Random(seed), Core("s"), Core("s"))
    for _ in range(STEPS):
        if dice.random() < 0.5:
            look(twins.cores[0], twins.now + dice.choice([0.0, 0.005]))
        twins.now += 0.005
        twins.step()


class Away:
    """A queue by another clock."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._by = 0.0

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return lambda now, *rest: getattr(self._core, verb)(now + self._by, *rest)

    def set(self, by: float) -> None:
        """The clock is set by so many seconds."""
        self._core.stepped(by)
        self._by += by


@pytest.mark.parametrize("seed", range(20))
def test_it_makes_no_difference_how_often_the_clock_is_set(seed: int) -> None:
    away = Away(Core("s"))
    twins = configured(random.Random(seed), Core("s"), away)  # type: ignore[arg-type] -- answers as one
    twins.expiry = None  # a time of day once the message is stored
    for step in range(STEPS):
        if step % 7 == 6:
            away.set(twins.dice.choice([4096.0, -2048.0]))
        twins.step()
        twins.tell(lambda core: core.stats(twins.now).topics)
        twins.tell(lambda core: core.locks(twins.now))
        ids = [f"m{twins.dice.randint(1, twins.count or 1)}" for _ in range(3)]
        twins.tell(lambda core: core.states(twins.now, ids))  # noqa: B023 -- called at once


def look(core: Core, now: float) -> None:
    """What looks, and lets time pass."""
    core.tick(now)
    core.claimable(now, Subscription())
    core.ready(now, Subscription())
    core.stats(now)


def test_a_silent_worker_is_forgotten_as_of_its_time_whoever_came_by_before() -> None:
    seen: list[list[Message]] = []
    for looked in (False, True):
        core = Core("s")
        core.register(1000.0, WORKERS[0], WorkerInfo())
        core.publish(1088.0, [a_message(id="m")])
        if looked:
            core.stats(1089.5)
        core.extend(1090.3, WORKERS[0], [], Beat())
        seen.append(list(core.claim(1090.4, WORKERS[0], Ask(), ()).claims))
    assert seen == [[], []]
