"""stats: every count exact, in one call, equal to what a plain count of the messages says."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

from millgate.brokers.base import Broker, State
from millgate.message import Claim
from millgate.outcome import Reason
from millgate.settlement import Ack, Bury, Charge, Drop, Later
from millgate.stats import TopicStats
from support.builders import a_message, a_topic, some_messages
from support.working import A_FAILURE, Hand

PassTime = Callable[[float], None]


def test_an_empty_queue_has_no_topics_and_no_workers(broker: Broker) -> None:
    stats = broker.stats()
    assert (dict(stats.topics), stats.workers, stats.next_due) == ({}, (), None)


def test_a_declared_topic_is_listed_with_zeros(broker: Broker) -> None:
    broker.configure([a_topic("empty")])
    assert broker.stats().topics["empty"] == TopicStats(
        waiting=0,
        claimable=0,
        delayed=0,
        leased=0,
        dead=0,
        oldest=None,
        enqueued=0,
        started=0,
        completed=0,
        failed=0,
        declared=True,
        paused=False,
        dropped=0,
    )


def test_an_undeclared_topic_is_listed_once_it_is_used(broker: Broker) -> None:
    broker.publish([a_message(topic="free")])
    assert broker.stats().topics["free"].declared is False


def test_the_oldest_is_the_longest_wait(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.publish([a_message(priority=0)])
    pass_time(0.5)
    broker.publish([a_message(priority=9)])
    pass_time(0.2)
    oldest = broker.stats().topics["default"].oldest
    assert oldest is not None
    assert 0.65 < oldest < 5
    hand.claim(2)
    assert broker.stats().topics["default"].oldest is None


def test_started_counts_first_attempts_only(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    for _ in range(3):
        hand.fail(hand.one())
    assert broker.stats().topics["default"].started == 1
    assert len(hand.claim(5)) == 2
    assert broker.stats().topics["default"].started == 2


def test_the_revision_is_said(broker: Broker) -> None:
    assert broker.stats().revision == broker.configuration().revision
    revision = broker.configure([a_topic(limit=2)])
    assert broker.stats().revision == revision


def test_topics_and_workers_are_of_one_moment(
    broker: Broker, make_broker: Callable[[], Broker]
) -> None:
    broker.publish(some_messages(500))
    stop = threading.Event()

    def work(hand: Hand) -> None:
        while not stop.is_set():
            for claim in hand.claim(2):
                hand.fail(claim)

    threads = [threading.Thread(target=work, args=(Hand(make_broker()),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    seen = [broker.stats() for _ in range(80)]
    while not seen[-1].topics["default"].leased:  # the workers may not have had their turn yet
        seen.append(broker.stats())
    stop.set()
    for thread in threads:
        thread.join()
    held = [
        (one.topics["default"].leased, sum(row.leased or 0 for row in one.workers)) for one in seen
    ]
    assert [pair for pair in held if pair[0] != pair[1]] == []


def test_counts_equal_a_plain_count_after_random_steps(broker: Broker) -> None:
    for seed in range(3):
        ledger = Ledger(broker, random.Random(seed), f"t{seed}-")
        ledger.run(150)
        ledger.compare()
        ledger.clear()


#: Place in the ledger → what the broker may call it.
STATES = {
    "waiting": State.WAITING,
    "delayed": State.DELAYED,
    "leased": State.RUNNING,
    "dead": State.FAILED,
    "done": State.SUCCEEDED,
    "gone": State.CANCELLED,
}


class Ledger:
    """Random verbs, and beside them a plain dict of where every message should be."""

    def __init__(self, broker: Broker, dice: random.Random, prefix: str) -> None:
        self.broker, self.dice, self.prefix = broker, dice, prefix
        self.hand = Hand(broker)
        self.topics = [prefix + name for name in "abc"]
        self.where: dict[str, str] = {}
        self.topic_of: dict[str, str] = {}
        self.held: dict[str, Claim] = {}
        self.counts: Counter[tuple[str, str]] = Counter()

    def run(self, steps: int) -> None:
        verbs = [self.publish, self.claim, self.settle, self.cancel, self.replay, self.requeue]
        for verb in self.dice.choices(verbs, weights=[2, 2, 3, 1, 1, 1], k=steps):
            verb()

    def publish(self) -> None:
        topic = self.dice.choice(self.topics)
        for _ in range(self.dice.randrange(1, 6)):
            delay = self.dice.choice([None, None, 600.0])
            message = a_message(topic=topic, priority=self.dice.randrange(10), delay=delay)
            self.broker.publish([message])
            self.topic_of[message.id] = topic
            self.where[message.id] = "delayed" if delay else "waiting"
            self.counts[topic, "enqueued"] += 1

    def claim(self) -> None:
        for got in self.hand.claim(self.dice.randrange(1, 8), f"{self.prefix}*"):
            self.held[got.id] = got
            self.where[got.id] = "leased"
            self.counts[got.topic, "started"] += got.attempt == 1

    def settle(self) -> None:
        if not self.held:
            return
        _, got = self.held.popitem()
        place, settlement = self.dice.choice(
            (
                ("done", Ack(got.ref, b"1")),
                ("dead", Bury(got.ref, Reason.FAILED, A_FAILURE)),
                ("delayed", Later(got.ref, 600.0, Charge.FAILURE)),
                ("waiting", Later(got.ref, 0.0, Charge.NOTHING)),
                ("gone", Drop(got.ref)),
            )
        )
        assert self.broker.settle([settlement]) == ()
        self.where[got.id] = place
        self.counts[got.topic, "completed"] += place == "done"
        self.counts[got.topic, "failed"] += place in ("dead", "gone")

    def cancel(self) -> None:
        chosen = self.one_of("waiting", "delayed")
        if chosen is not None:
            self.broker.cancel([chosen])
            self.where[chosen] = "gone"
            self.counts[self.topic_of[chosen], "failed"] += 1

    def replay(self) -> None:
        chosen = self.one_of("dead")
        if chosen is not None:
            assert self.broker.replay([chosen]) == [chosen]
            self.where[chosen] = "waiting"
            self.counts[self.topic_of[chosen], "enqueued"] += 1

    def requeue(self) -> None:
        if self.held:
            chosen, _ = self.held.popitem()
            assert self.broker.requeue([chosen]) == [chosen]
            self.where[chosen] = "waiting"

    def one_of(self, *places: str) -> str | None:
        found = [name for name, place in self.where.items() if place in places]
        return self.dice.choice(found) if found else None

    def compare(self) -> None:
        stats = self.broker.stats().topics
        for topic in self.topics:
            places = Counter(
                self.where[name] for name, its in self.topic_of.items() if its == topic
            )
            known = stats.get(topic, TopicStats(0, 0, 0, 0, 0, None, 0, 0, 0, 0))
            assert (known.waiting, known.delayed, known.leased, known.dead) == tuple(
                places[place] for place in ("waiting", "delayed", "leased", "dead")
            )
            assert (known.enqueued, known.started, known.completed, known.failed) == tuple(
                self.counts[topic, name] for name in ("enqueued", "started", "completed", "failed")
            )
            assert known.claimable == places["waiting"]
        for known_state in self.broker.states(list(self.where)):
            assert known_state.state is STATES[self.where[known_state.id]]

    def clear(self) -> None:
        self.broker.unregister(self.hand.worker)
        self.broker.purge_dead()
