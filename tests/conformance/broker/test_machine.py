"""Random sequences of verbs against each broker, with the reference queue as the model beside it.

What is decided by rules is compared after each step: receipts, stale tokens, states, every count. What a claim hands
over is checked to be what the model would let start, in order within each topic, and then the model follows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from millgate.brokers.base import Ask, State
from millgate.brokers.core import Core
from millgate.brokers.memory import MemoryBroker
from millgate.errors import MillgateError
from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState
from millgate.message import Claim, Group, Message, Receipt
from millgate.outcome import Reason
from millgate.queues import (
    DeadPolicy,
    Ordering,
    QueuePolicy,
    Subscription,
    TopicPolicy,
    Undeclared,
)
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement
from support import alike, invariants
from support.brokers import FACTORIES, Venue
from support.follow import follow
from support.working import A_FAILURE

TOPICS = ("a", "b", "c")
WORKERS = 3
START = 1_800_000_000.0
#: Real brokers are given no time to pass, so nothing short may be due in them.
LONG = 3600.0


def fitting(policy: TopicPolicy) -> TopicPolicy:
    """A policy that may be: a limit of one of a topic without key limit is taken for a strict order now and then."""
    if policy.limit == 1 and policy.key_limit is None:
        return replace(policy, ordering=Ordering.FIFO)
    return policy


topics = st.sampled_from(TOPICS)
workers = st.integers(0, WORKERS - 1)
choices = st.integers(0, 10_000)
policies = st.lists(
    st.builds(
        TopicPolicy,
        name=topics,
        limit=st.sampled_from([None, 1, 2, 5]),
        key_limit=st.sampled_from([None, None, 1, 2]),
        ordering=st.sampled_from([Ordering.NONE, Ordering.NONE, Ordering.KEY]),
        dead=st.sampled_from([DeadPolicy.KEEP, DeadPolicy.KEEP, DeadPolicy.DROP]),
        dead_max=st.sampled_from([0, 1, 3]),
        priority=st.sampled_from([5, 5, 8]),
        paused=st.sampled_from([False, False, False, True]),
        lease=st.just(60.0),
        boost_after=st.just(0.0),
    ),
    max_size=3,
    unique_by=lambda policy: policy.name,
).map(lambda found: [fitting(policy) for policy in found])
queues = st.one_of(
    st.none(),
    st.builds(
        QueuePolicy,
        limit=st.sampled_from([None, 2, 6]),
        max_waiting=st.sampled_from([None, None, 12]),
        suspended=st.sampled_from([False, False, False, True]),
        undeclared=st.sampled_from([Undeclared.ALLOW, Undeclared.ALLOW, Undeclared.REJECT]),
    ),
)


class Machine(RuleBasedStateMachine):
    """One broker and the model; `name` and `folder` are set by the test."""

    name = "memory"
    folder = Path()
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        place = self.folder / str(next(self.numbers))
        place.mkdir()
        self.venue: Venue = FACTORIES[self.name](place)
        self.broker = self.venue.client()
        self.model = Core()
        self.now = START
        self.ids: list[str] = []
        self.held: list[tuple[Claim, Claim]] = []  # the broker's and the model's
        self.stale: list[tuple[Claim, Claim]] = []
        self.last: tuple[list[Settlement], list[Settlement]] = ([], [])
        self.sent: tuple[float, list[Message], Group | None, list[Receipt]] = (0.0, [], None, [])
        self.starts = itertools.count()
        self.workers = [self.start(f"w{n}") for n in range(WORKERS)]

    @property
    def turned(self) -> bool:
        """Whether this broker's clock is turned by hand."""
        return isinstance(self.broker, MemoryBroker)

    def teardown(self) -> None:
        self.venue.close()

    # --- producing -------------------------------------------------------------------------------

    @rule(
        topic=topics,
        rows=st.lists(
            st.tuples(
                st.integers(0, 9),
                st.sampled_from([None, "k", "l"]),
                st.booleans(),
                st.sampled_from([None, None, None, "u", "v"]),
            ),
            min_size=1,
            max_size=5,
        ),
    )
    def publish(self, topic: str, rows: list[tuple[int, str | None, bool, str | None]]) -> None:
        batch = [
            Message(
                id=self.new_id(),
                topic=topic,
                task="t",
                body=b"",
                priority=priority,
                key=key,
                delay=LONG if late else None,
                unique=unique,
            )
            for priority, key, late, unique in rows
        ]
        self.send(batch)

    @rule(which=choices)
    def publish_again(self, which: int) -> None:
        if self.ids:
            name = self.ids[which % len(self.ids)]
            self.send([Message(id=name, topic="a", task="t", body=b"")])

    @rule()
    def send_again(self) -> None:
        """The client was dropped before the reply, and sends it all again: nothing is stored twice."""
        when, batch, group, receipts = self.sent
        if when == self.now:
            again = self.send(batch, group)
            for first, second in zip(receipts, again or (), strict=again is not None):
                assert first.duplicate or second == Receipt(first.id, duplicate=True)

    @rule(
        topic=topics,
        size=st.integers(0, 4),
        require_all=st.booleans(),
        which=choices,
        texts=st.sampled_from([None, None, "u"]),
    )
    def publish_group(
        self, topic: str, size: int, require_all: bool, which: int, texts: str | None
    ) -> None:
        """Now and then one of the members is known already, or its text is taken."""
        name = self.new_id()
        known = self.some_ids(which, 1) if which % 3 == 0 else []
        members = [
            Message(id=member, topic=topic, task="t", body=b"", group=name, unique=texts)
            for member in [*known, *(self.new_id() for _ in range(size))]
        ]
        callback = Message(id=self.new_id(), topic=topic, task="t", body=b"")
        ids = tuple(member.id for member in members)
        self.send(members, Group(name, ids, callback, require_all))

    @rule(slot=st.integers(0, 5), topic=topics)
    def fire(self, slot: int, topic: str) -> None:
        message = Message(id=self.new_id(), topic=topic, task="t", body=b"")
        self.same(
            lambda: self.broker.fire("nightly", START + slot, [message]),
            lambda: self.model.fire(self.now, "nightly", START + slot, [message]),
        )

    # --- working ---------------------------------------------------------------------------------

    @rule(
        worker=workers,
        n=st.integers(0, 6),
        include=st.sampled_from([(), (), ("a",), ("b", "c"), ("[ab]",)]),
        with_settlements=st.booleans(),
        which=choices,
    )
    def claim(
        self, worker: int, n: int, include: tuple[str, ...], with_settlements: bool, which: int
    ) -> None:
        real, modelled = self.settlements(which, 3) if with_settlements else ([], [])
        ask = Ask(Subscription(include), n)
        answer = self.broker.claim(self.workers[worker], ask, real)
        expected = self.model.claim(
            self.now, self.workers[worker], Ask(ask.subscription, 0), modelled
        )
        assert (answer.stale, answer.state) == (expected.stale, expected.state)
        assert answer.revision == expected.revision
        followed = follow(self.model, self.now, self.workers[worker], ask, answer.claims)
        self.held += list(zip(answer.claims, followed, strict=True))

    @rule(worker=workers, n=st.integers(1, 3))
    def crash_between_a_claim_and_its_reply(self, worker: int, n: int) -> None:
        """Nobody hears of what was handed over. The worker starts anew; its older start is given nothing any more."""
        gone, ask = self.workers[worker], Ask(n=n)
        follow(self.model, self.now, gone, ask, self.broker.claim(gone, ask).claims)
        self.workers[worker] = self.start(gone.name)
        late = self.broker.claim(gone, ask)
        assert (late.claims, late.state) == ((), WorkerState.UNKNOWN)

    @rule(which=choices, count=st.integers(1, 4))
    def settle(self, which: int, count: int) -> None:
        real, modelled = self.settlements(which, count)
        assert self.broker.settle(real) == self.model.settle(self.now, modelled)

    @rule()
    def settle_again(self) -> None:
        """The reply was lost, the call is repeated: every token is stale."""
        real, modelled = self.last
        stale = self.broker.settle(real)
        assert stale == self.model.settle(self.now, modelled)
        assert len(stale) == len(real)

    @rule(which=choices)
    def use_a_stale_claim(self, which: int) -> None:
        if self.stale:
            claim, _ = self.stale[which % len(self.stale)]
            assert self.broker.progress(claim.ref, b"late") is False
            assert self.broker.settle([Ack(claim.ref, b"late")]) == (claim.id,)
            assert self.broker.extend(self.workers[0], [claim.ref], Beat()).lost == (claim.id,)
            self.model.extend(self.now, self.workers[0], [], Beat())

    @rule(worker=workers)
    def extend(self, worker: int) -> None:
        ref = self.workers[worker]
        answer = self.broker.extend(ref, [claim.ref for claim, _ in self.held], Beat())
        expected = self.model.extend(self.now, ref, [claim.ref for _, claim in self.held], Beat())
        assert answer == expected

    @rule(worker=workers)
    def leave_and_return(self, worker: int) -> None:
        ref = self.workers[worker]
        self.broker.unregister(ref)
        self.model.unregister(self.now, ref)
        self.workers[worker] = self.start(ref.name, ref.incarnation)
        self.drop_stale()

    @rule(worker=workers, lift=st.booleans())
    def fence(self, worker: int, lift: bool) -> None:
        name = self.workers[worker].name
        if lift:
            assert self.broker.unfence(name) == self.model.unfence(self.now, name)
        else:
            assert self.broker.fence(name, LONG) == self.model.fence(self.now, name, LONG)

    # --- administration --------------------------------------------------------------------------

    @rule(which=choices, count=st.integers(1, 3))
    def cancel(self, which: int, count: int) -> None:
        ids = self.some_ids(which, count)
        assert self.broker.cancel(ids) == self.model.cancel(self.now, ids)

    @rule(which=choices, count=st.integers(1, 3))
    def requeue(self, which: int, count: int) -> None:
        ids = self.some_ids(which, count)
        assert self.broker.requeue(ids) == self.model.requeue(self.now, ids)
        self.drop_stale()

    @rule(
        topic=topics,
        states=st.sampled_from(
            [(State.WAITING, State.DELAYED), (State.WAITING,), (State.DELAYED,)]
        ),
    )
    def purge(self, topic: str, states: tuple[State, ...]) -> None:
        assert self.broker.purge(topic, states) == self.model.purge(self.now, topic, states)

    @rule(
        which=choices,
        count=st.integers(1, 3),
        ids=st.booleans(),
        topic=st.sampled_from([*TOPICS, None]),
    )
    def forget_dead(self, which: int, count: int, ids: bool, topic: str | None) -> None:
        chosen = self.some_ids(which, count) if ids else None
        assert self.broker.purge_dead(topic, chosen) == self.model.purge_dead(
            self.now, topic, chosen
        )

    @rule(which=choices, count=st.integers(1, 3))
    def replay(self, which: int, count: int) -> None:
        dead = [letter.id for letter in self.model.dead(self.now)]
        chosen = [dead[(which + n) % len(dead)] for n in range(min(count, len(dead)))]
        # a member that is replayed takes the callback back that was buried for it
        assert self.broker.replay(chosen) == self.model.replay(self.now, chosen)

    @rule(chosen=policies, queue=queues, replace=st.booleans())
    def configure(
        self, chosen: list[TopicPolicy], queue: QueuePolicy | None, replace: bool
    ) -> None:
        self.same(
            lambda: self.broker.configure(chosen, queue, replace=replace),
            lambda: self.model.configure(self.now, chosen, queue, replace=replace),
        )

    @rule(topic=topics, paused=st.booleans())
    def pause(self, topic: str, paused: bool) -> None:
        self.broker.pause(topic, paused)
        self.model.pause(self.now, topic, paused)

    @rule(seconds=st.sampled_from([0.5, 5.0, 61.0, 3601.0]))
    def pass_time(self, seconds: float) -> None:
        if self.turned:
            self.venue.pass_time(seconds)
            self.now += seconds
            self.model.tick(self.now)
            self.drop_stale()

    @rule()
    def restart_from_a_snapshot(self) -> None:
        self.model = Core.load(self.model.dump())
        if isinstance(self.broker, MemoryBroker):
            shared = self.broker._shared
            shared.core = Core.load(shared.core.dump())

    # --- comparing -------------------------------------------------------------------------------

    @rule()
    def compare(self) -> None:
        alike.counts(self.broker.stats(), self.model.stats(self.now))
        alike.states(self.broker.states(self.ids), self.model.states(self.now, self.ids))
        for topic in (None, *TOPICS):
            alike.letters(self.broker.dead(topic), self.model.dead(self.now, topic))
        for topic, state in itertools.product(TOPICS, alike.PLACES):
            modelled = self.model.peek(self.now, topic, state)
            # time stands still for the model only
            ordered = self.turned or state is not State.DELAYED
            alike.places(self.broker.peek(topic, state), modelled, ordered=ordered)

    def check_invariants(self, *args: Any, **kwargs: Any) -> None:
        super().check_invariants(*args, **kwargs)
        invariants.check(self.model)
        if isinstance(self.broker, MemoryBroker):
            invariants.check(self.broker.core)

    # --- parts -----------------------------------------------------------------------------------

    def same(self, real: Callable[[], Any], modelled: Callable[[], Any]) -> Any:
        """What both answer; None: both refuse, for the same reason."""
        try:
            expected = modelled()
        except MillgateError as error:
            with pytest.raises(type(error)):
                real()
            return None
        assert real() == expected
        return expected

    def new_id(self) -> str:
        self.ids.append(f"m{len(self.ids)}")
        return self.ids[-1]

    def some_ids(self, which: int, count: int) -> list[str]:
        return [self.ids[(which + n) % len(self.ids)] for n in range(count)] if self.ids else []

    def start(self, name: str, incarnation: str = "") -> WorkerRef:
        ref = WorkerRef(name, incarnation or f"start-{next(self.starts)}")
        self.broker.register(ref, WorkerInfo())
        self.model.register(self.now, ref, WorkerInfo())
        return ref

    def send(self, batch: list[Message], group: Group | None = None) -> list[Receipt] | None:
        """What is answered; None: it was refused."""
        receipts: list[Receipt] | None = self.same(
            lambda: self.broker.publish(batch, group),
            lambda: self.model.publish(self.now, batch, group),
        )
        if receipts is not None:
            self.sent = (self.now, batch, group, receipts)
        return receipts

    def settlements(self, which: int, count: int) -> tuple[list[Settlement], list[Settlement]]:
        """Settlements of some held claims, for the broker and for the model."""
        real: list[Settlement] = []
        modelled: list[Settlement] = []
        for n in range(min(count, len(self.held))):
            pair = self.held.pop((which + n) % len(self.held))
            self.stale.append(pair)
            follower = [Message(id=self.new_id(), topic="b", task="t", body=b"")]
            for claim, into in zip(pair, (real, modelled), strict=True):
                kinds: tuple[Settlement, ...] = (
                    Ack(claim.ref),
                    Ack(claim.ref, b"1", publish=follower),
                    Later(claim.ref, 0.0, Charge.FAILURE, A_FAILURE),
                    Later(claim.ref, LONG, Charge.NOTHING),
                    Bury(claim.ref, Reason.FAILED, A_FAILURE),
                    Drop(claim.ref),
                )
                into.append(kinds[(which // 7 + n) % len(kinds)])
        self.last = (real, modelled)
        return real, modelled

    def drop_stale(self) -> None:
        """Sort out the claims that the model has taken away."""
        lost = set(
            self.model.extend(
                self.now, WorkerRef("nobody", ""), [claim.ref for _, claim in self.held], Beat()
            ).lost
        )
        if self.turned:
            self.broker.extend(
                WorkerRef("nobody", ""), [claim.ref for claim, _ in self.held], Beat()
            )
        self.stale += [pair for pair in self.held if pair[0].id in lost]
        self.held = [pair for pair in self.held if pair[0].id not in lost]


def test_random_sequences_keep_every_promise(broker_name: str, tmp_path: Path) -> None:
    machine = type("Machine", (Machine,), {"name": broker_name, "folder": tmp_path})
    long = settings.get_current_profile_name() == "long"
    quick, steps = (60, 40) if broker_name == "memory" else (6, 30)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=settings.get_profile("long").max_examples if long else quick,
            stateful_step_count=steps,
            # shrinking takes minutes where a fresh queue takes part of a second
            phases=[Phase.generate, *([Phase.shrink] if long or broker_name == "memory" else [])],
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
