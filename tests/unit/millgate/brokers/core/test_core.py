"""The reference queue as a whole: deterministic, repeatable, restorable, and untroubled by a clock that is set."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from millgate.brokers.base import Ask, State
from millgate.brokers.core import Core
from millgate.brokers.served import values
from millgate.errors import InvalidMessage, NotDecodable
from millgate.fleet import WORKER_TTL, Beat, WorkerState
from millgate.message import Claim, Group, Message
from millgate.outcome import Reason
from millgate.queues import DeadPolicy, Ordering, QueuePolicy
from millgate.settlement import Ack, Bury, Charge, Later
from support import invariants
from support.builders import a_message, a_topic, a_worker, an_info, some_messages

NOW = 1_800_000_000.0


def working(core: Core, now: float = NOW) -> Any:
    worker = a_worker()
    core.register(now, worker, an_info())
    return worker


def claimed(
    core: Core, worker: Any, n: int = 1, now: float = NOW, call: str | None = None
) -> list[Claim]:
    return list(core.claim(now, worker, Ask(n=n), (), call).claims)


# --- repeats of a claim --------------------------------------------------------------------------


def test_a_repeated_call_answers_the_same_claims_and_takes_no_more() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, some_messages(10))
    first = claimed(core, worker, 3, call="7")
    again = claimed(core, worker, 3, NOW + 5, call="7")
    assert [(c.id, c.token) for c in again] == [(c.id, c.token) for c in first]
    assert core.stats(NOW + 5).topics["default"].leased == 3
    assert [c.id for c in claimed(core, worker, 3, call="8")] != [c.id for c in first]


def test_a_repeated_call_counts_its_leases_anew() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, [a_message()])
    claimed(core, worker, call="1")
    claimed(core, worker, now=NOW + 50, call="1")
    assert core.stats(NOW + 100).topics["default"].leased == 1


def test_a_repeated_call_leaves_out_what_was_lost_meanwhile() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, some_messages(2))
    first, second = claimed(core, worker, 2, call="1")
    core.requeue(NOW, [first.id])
    assert [c.id for c in claimed(core, worker, 2, call="1")] == [second.id]


def test_a_repeat_with_settlements_settles_once() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, some_messages(3))
    (held,) = claimed(core, worker)
    ack = Ack(held.ref, b"1", publish=some_messages(1, topic="next"))
    first = core.claim(NOW, worker, Ask(n=1), [ack], "c")
    again = core.claim(NOW, worker, Ask(n=1), [ack], "c")
    assert (first.stale, again.stale) == ((), (held.id,))
    assert first.claims == again.claims
    assert core.stats(NOW).topics["next"].enqueued == 1


# --- writing down and reading back ---------------------------------------------------------------


class Busy:
    """A queue in the middle of everything, and the journal that led there."""

    def __init__(self, seed: int, steps: int = 200) -> None:
        self.core, self.dice, self.now = Core("s"), random.Random(seed), NOW
        self.journal: list[tuple[str, float, tuple[Any, ...]]] = []
        self.workers = [a_worker() for _ in range(2)]
        self.held: list[Claim] = []
        topics = [
            a_topic("a", ordering=Ordering.KEY, limit=3, lease=5.0, weight=7),
            a_topic("b", key_limit=1, boost_after=10.0, priority=3),
        ]
        self.do("configure", topics, QueuePolicy(limit=6))
        for worker in self.workers:
            self.do("register", worker, an_info())
        verbs = [self.publish, self.claim, self.settle, self.other]
        for verb in self.dice.choices(verbs, weights=[1, 2, 2, 1], k=steps):
            self.now += self.dice.random() * 2
            verb()

    def do(self, verb: str, *args: Any) -> Any:
        self.journal.append((verb, self.now, args))
        return getattr(self.core, verb)(self.now, *args)

    def publish(self) -> None:
        batch = [self.message() for _ in range(self.dice.randrange(1, 5))]
        group = Group(f"g{self.now}", (batch[0].id,), a_message(topic="a"))
        self.do("publish", batch, group if self.dice.random() < 0.2 else None)

    def message(self) -> Message:
        dice = self.dice
        return a_message(
            topic=dice.choice("abc"),
            key=dice.choice([None, "k", "l"]),
            priority=dice.randrange(10),
            delay=dice.choice([None, None, 3.0]),
            expires_in=dice.choice([None, None, 20.0]),
            unique=dice.choice([None, None, "u"]),
            unique_for=dice.choice([None, 15.0]),
        )

    def claim(self) -> None:
        ask = Ask(n=self.dice.randrange(1, 5))
        self.held.extend(self.do("claim", self.dice.choice(self.workers), ask).claims)

    def settle(self) -> None:
        if self.held:
            ref = self.held.pop(self.dice.randrange(len(self.held))).ref
            delay = self.dice.choice([0.0, 4.0])
            later = Later(ref, delay, Charge.FAILURE)
            kinds = (Ack(ref, b"1"), Ack(ref), later, Bury(ref, Reason.FAILED))
            self.do("settle", [self.dice.choice(kinds)])

    def other(self) -> None:
        calls: list[tuple[Any, ...]] = [
            ("acquire", "lock", "h", 9.0),
            ("fire", "cron", self.now, [a_message(topic="a")]),
            ("fence", self.workers[0].name, 5.0),
            ("pause", "b", self.dice.random() < 0.3),
            ("purge", "c"),
        ]
        self.do(*self.dice.choice(calls))


@pytest.mark.parametrize("seed", range(10))
def test_a_journal_brings_the_same_queue_back(seed: int) -> None:
    busy = Busy(seed)
    core, journal = busy.core, busy.journal
    again = Core("s")
    for verb, now, args in journal:
        getattr(again, verb)(now, *args)
    assert again.dump() == core.dump()


@pytest.mark.parametrize("seed", range(10))
def test_looking_at_a_queue_does_not_change_what_becomes_of_it(seed: int) -> None:
    busy = Busy(seed)
    core, journal = busy.core, busy.journal
    again, dice = Core("s"), random.Random(seed)
    before = NOW
    for verb, now, args in journal:
        again.stats(before + (now - before) * dice.random())
        before = now
        getattr(again, verb)(now, *args)
    last = journal[-1][1]
    core.tick(last + 1)
    again.tick(last + 1)
    assert again.dump() == core.dump()


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_goes_through_msgpack_and_goes_on_as_the_original_would(seed: int) -> None:
    busy = Busy(seed)
    core, journal = busy.core, busy.journal
    now = journal[-1][1]
    again = Core.load(msgpack.unpackb(msgpack.packb(core.dump()), strict_map_key=False))
    invariants.check(again)
    assert again.dump() == core.dump()
    for step in range(40):
        now += 1.0
        for each in (core, again):
            each.publish(now, [a_message(id=f"after-{seed}-{step}", topic="a")])
        worker = a_worker()
        for each in (core, again):
            each.register(now, worker, an_info())
        answers = [each.claim(now, worker, Ask(n=3)) for each in (core, again)]
        assert answers[0] == answers[1]
        assert core.stats(now) == again.stats(now)


def test_something_else_is_not_taken_for_a_snapshot() -> None:
    for strange in (None, {}, {"format": 99}, [1, 2]):
        with pytest.raises(NotDecodable):
            Core.load(strange)


# --- time ----------------------------------------------------------------------------------------


def test_time_that_steps_back_a_little_does_nothing() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, [a_message()])
    claimed(core, worker)
    core.stats(NOW - 0.5)
    invariants.check(core)
    assert core.stats(NOW + 61).topics["default"].leased == 0


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_neither_ends_a_lease_nor_prolongs_it(by: float) -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, [a_message()])
    claimed(core, worker)
    core.fence(NOW, worker.name, 30.0)
    core.acquire(NOW, "lock", "h", 30.0)
    core.stepped(by)
    now = NOW + by
    invariants.check(core)
    assert core.stats(now + 29).topics["default"].leased == 1
    assert core.stats(now + 29).workers[0].state is WorkerState.FENCED
    assert len(core.locks(now + 29)) == 1
    assert core.stats(now + 61).topics["default"].leased == 0
    assert core.locks(now + 61) == []


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_keeps_waits_and_named_times(by: float) -> None:
    core = Core()
    core.publish(NOW, [a_message(id="wait", delay=10.0), a_message(id="named", at=NOW + 7200)])
    core.stepped(by)
    now = NOW + by
    assert [known.state for known in core.states(now + 9, ["wait", "named"])] == [State.DELAYED] * 2
    assert core.states(now + 11, ["wait"])[0].state is State.WAITING
    assert core.states(NOW + 7201, ["named"])[0].state is State.WAITING


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_makes_nothing_expire_but_at_a_named_time(by: float) -> None:
    core = Core()
    message = a_message(id="both", expires_in=10.0, expires_at=NOW + 7200)
    core.publish(NOW, [a_message(id="in", expires_in=10.0), message])
    core.publish(NOW, [a_message(id="at", expires_at=NOW + 7200)])
    core = Core.load(core.dump())
    core.stepped(by)
    now = NOW + by
    waiting, ids = [State.WAITING] * 3, ["in", "both", "at"]
    assert [known.state for known in core.states(now + 9, ids)] == waiting
    ended = [State.FAILED, State.FAILED, State.WAITING]
    assert [known.state for known in core.states(now + 11, ids)] == ended
    assert core.states(NOW + 7199, ["at"])[0].state is State.WAITING
    assert core.states(NOW + 7201, ["at"])[0].state is State.FAILED


def test_named_times_that_a_clock_has_passed_over_come_when_it_is_set() -> None:
    core = Core()
    core.configure(NOW, [a_topic(dead=DeadPolicy.DROP, result_ttl=60.0)])
    core.publish(NOW, [a_message(id="waits"), a_message(id="named", at=NOW + 100)])
    core.publish(NOW, [a_message(id="gone", expires_at=NOW + 100)])
    core.stepped(86_400.0)
    now = NOW + 86_400.0
    states = core.states(now, ["waits", "named", "gone"])
    assert [known.state for known in states] == [State.WAITING, State.WAITING, State.FAILED]
    assert core.stats(now).topics["default"].oldest == 0.0
    invariants.check(core)


def test_a_silent_worker_is_forgotten_and_a_fenced_one_is_not() -> None:
    core = Core()
    silent, fenced = working(core), working(core)
    core.fence(NOW, fenced.name, 3600.0)
    later = NOW + WORKER_TTL + 2
    assert not core.fence(later, silent.name, 60.0).known
    assert [row.name for row in core.stats(later).workers] == [fenced.name]
    assert core.claim(later, silent, Ask()).state is WorkerState.UNKNOWN


def test_a_start_that_was_forgotten_while_its_leases_ran_on_has_them_still() -> None:
    core = Core()
    core.configure(NOW, [a_topic(lease=300.0)])
    worker = working(core)
    core.publish(NOW, [message := a_message()])
    (claim,) = claimed(core, worker)
    later = NOW + WORKER_TTL + 2
    assert core.extend(later, worker, [claim.ref], Beat()).state is WorkerState.UNKNOWN
    core.register(later, worker, an_info())
    assert core.stats(later).workers[0].leased == 1
    assert core.fence(later, worker.name, 5.0).leased == 1
    invariants.check(core)
    core.unregister(later, worker)
    assert core.states(later, [message.id])[0].state is State.WAITING


def test_a_record_that_is_too_deep_to_read_stays_where_it_dies() -> None:
    deep: list[Any] = [1, "t", b"", None, None, False, None, None]
    for _ in range(335):  # more than Python reads, fewer than msgpack
        step = [["m", "default", 5, *[None] * 9], deep]
        deep = [1, "t", b"", None, None, False, None, [step]]
    plain = [*values.from_message(a_message(expires_in=1.0))[:-2], msgpack.packb(deep), False]
    core = Core()
    core.configure(NOW, [a_topic(dead=DeadPolicy.FORWARD, dead_topic="graves")])
    core.publish(NOW, [values.to_message(plain)])
    (letter,) = core.dead(NOW + 2)
    assert (letter.message, letter.raw) == (None, msgpack.packb(deep))


def test_a_sign_of_life_of_any_kind_keeps_a_worker() -> None:
    core = Core()
    worker = working(core)
    signs: tuple[Callable[[float], object], ...] = (
        lambda now: core.claim(now, worker, Ask(n=0)),
        lambda now: core.extend(now, worker, [], Beat()),
        lambda now: core.register(now, worker, an_info()),
    )
    for step, sign in enumerate(signs, start=1):
        sign(NOW + step * 80)
    assert len(core.stats(NOW + 3 * 80 + 80).workers) == 1


# --- news: what a shell wakes its waiters by -----------------------------------------------------


def limited(core: Core) -> tuple[Any, Claim]:
    """Two messages behind limits of one, the first of them running."""
    core.configure(NOW, [a_topic(limit=1, key_limit=1)])
    worker = working(core)
    core.publish(NOW, some_messages(2, key="k"))
    return worker, claimed(core, worker)[0]


FREE: dict[str, Callable[[Core, Any, Claim], object]] = {
    "ack": lambda core, worker, claim: core.settle(NOW, [Ack(claim.ref)]),
    "retry": lambda core, worker, claim: core.settle(NOW, [Later(claim.ref, 60.0)]),
    "bury": lambda core, worker, claim: core.settle(NOW, [Bury(claim.ref, Reason.FAILED)]),
    "requeue": lambda core, worker, claim: core.requeue(NOW, [claim.id]),
    "unregister": lambda core, worker, claim: core.unregister(NOW, worker),
    "lapse": lambda core, worker, claim: core.tick(NOW + 61),
    "configure": lambda core, worker, claim: core.configure(NOW, [a_topic()]),
}


@pytest.mark.parametrize("free", FREE)
def test_a_slot_that_becomes_free_is_news(free: str) -> None:
    core = Core()
    worker, claim = limited(core)
    core.take_news()
    FREE[free](core, worker, claim)
    assert "default" in core.take_news().topics
    assert not core.take_news()


def test_a_free_slot_of_a_topic_without_keys_is_news() -> None:
    core = Core()
    core.configure(NOW, [a_topic(limit=1)])
    worker = working(core)
    core.publish(NOW, some_messages(2))
    (claim,) = claimed(core, worker)
    core.take_news()
    core.settle(NOW, [Ack(claim.ref)])
    assert core.take_news().topics == {"default"}


def test_a_free_slot_of_the_queue_is_news_for_every_topic() -> None:
    core = Core()
    core.configure(NOW, [], QueuePolicy(limit=1))
    worker = working(core)
    core.publish(NOW, [a_message(topic="a"), a_message(topic="b"), a_message(topic="c")])
    (claim,) = claimed(core, worker)
    core.take_news()
    core.settle(NOW, [Ack(claim.ref)])
    assert core.take_news().topics == {"b", "c"}


def test_publishing_resuming_unfencing_and_coming_due_are_news() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, [a_message(), a_message(topic="late", delay=5.0)])
    assert core.take_news().topics == {"default"}
    core.pause(NOW, "default", True)
    core.take_news()
    core.pause(NOW, "default", False)
    assert core.take_news().topics == {"default"}
    core.fence(NOW, worker.name, 60)
    core.unfence(NOW, worker.name)
    assert core.take_news().topics == {"default"}
    core.tick(NOW + 6)
    assert core.take_news().topics == {"late"}


def test_every_end_is_news() -> None:
    core = Core()
    worker = working(core)
    messages = some_messages(5)
    core.publish(NOW, messages)
    first, second, third = claimed(core, worker, 3)
    core.settle(NOW, [Ack(first.ref), Ack(second.ref, b"1"), Bury(third.ref, Reason.FAILED)])
    core.cancel(NOW, [messages[3].id])
    core.purge(NOW, "default")
    assert core.take_news().ended == [message.id for message in messages]


# --- nothing grows -------------------------------------------------------------------------------


def test_a_hundred_thousand_tasks_leave_nothing_behind() -> None:
    core = Core()
    worker, now = working(core), NOW
    for n in range(1_000):
        now += 1.0
        core.publish(
            now,
            [
                a_message(id=f"{n}-{k}", expires_in=600.0, unique=f"u{n}-{k}", result_ttl=5.0)
                for k in range(20)
            ],
        )
        claims = core.claim(now, worker, Ask(n=20)).claims
        core.settle(now, [Ack(claim.ref, b"1") for claim in claims])
        core.acquire(now, f"lock{n}", "h", 1.0)
    store = core.store
    sizes = [
        len(store.rows),
        len(store.dues),
        len(store.expiries),
        len(store.holders),
        len(store.windows),
        len(store.topics["default"].line.fresh),
        *(len(span.rows) for span in store.spans.values()),
    ]
    assert sum(sizes) < 200
    assert len(store.results) < 300
    assert len(store.recent) < 2_000
    assert len(store.locks) < 5


def test_a_queue_that_falls_quiet_forgets_what_ended() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, [message := a_message()])
    core.settle(NOW, [Ack(claim.ref) for claim in claimed(core, worker)])
    assert core.states(NOW + 59, [message.id])[0].state is State.SUCCEEDED
    assert core.states(NOW + 120, [message.id])[0].state is State.UNKNOWN
    assert len(core.store.recent) == 0


def test_dead_letters_past_their_bounds_take_their_groups_along() -> None:
    core = Core()
    worker = working(core)
    core.configure(NOW, [a_topic(dead_max=2), a_topic("callback", dead_max=2)])
    for n in range(10):
        member = a_message(group=f"g{n}")
        callback = a_message(topic="callback")
        core.publish(NOW, [member], Group(f"g{n}", (member.id,), callback))
        core.settle(NOW, [Bury(claim.ref, Reason.FAILED) for claim in claimed(core, worker)])
    invariants.check(core)
    assert len(core.store.groups) == 2
    assert len(core.store.watched) == 2


# --- found by random sequences -------------------------------------------------------------------


def test_an_order_set_on_a_mixed_backlog_keeps_the_oldest_the_oldest() -> None:
    core = Core()
    core.publish(NOW, [a_message(priority=0)])
    core.publish(NOW + 5, [a_message(priority=1)])
    core.configure(NOW + 6, [a_topic(ordering=Ordering.KEY)])
    invariants.check(core)
    assert core.stats(NOW + 6).topics["default"].oldest == 6


def test_a_retry_that_waits_needs_no_gate_of_its_own() -> None:
    core = Core()
    worker = working(core)
    core.publish(NOW, [a_message(key="k")])
    (claim,) = claimed(core, worker)
    core.settle(NOW, [Later(claim.ref, 600.0)])
    core.configure(NOW, [a_topic(key_limit=1)])
    invariants.check(core)


def test_a_group_id_is_not_taken_twice() -> None:
    core = Core()
    first, second = some_messages(2, group="g")
    core.publish(NOW, [first], Group("g", (first.id,), a_message()))
    with pytest.raises(InvalidMessage, match="callback"):
        core.publish(NOW, [second], Group("g", (second.id,), a_message()))
    assert core.states(NOW, [second.id])[0].state is State.UNKNOWN


def test_a_callback_whose_id_was_taken_meanwhile_leaves_that_message_alone() -> None:
    core = Core()
    member, callback = a_message(group="g"), a_message()
    core.publish(NOW, [member], Group("g", (member.id,), callback))
    core.publish(NOW, [a_message(id=callback.id, topic="other")])
    core.cancel(NOW, [member.id])
    invariants.check(core)
    assert core.states(NOW, [callback.id])[0].state is State.WAITING
