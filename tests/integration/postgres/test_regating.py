"""New gates for a long backlog: it passes them in steps, its topic is shut meanwhile, and everybody else goes on."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from millgate.brokers.base import State
from millgate.brokers.postgres import PostgresBroker
from millgate.message import Claim
from millgate.queues import Ordering, QueuePolicy, Subscription
from support.builders import a_message, a_topic, some_messages
from support.postgres import database_url
from support.postgres_checks import wrong
from support.working import Hand, ids

GATES: dict[str, dict[str, Any]] = {
    "none": {},
    "one of a key": {"key_limit": 1},
    "three of a key": {"key_limit": 3},
    "an order of keys": {"ordering": Ordering.KEY},
    "a strict order": {"ordering": Ordering.FIFO},
}
KEYS = (None, "a", "b", "c")
#: More than pass new gates in the step of `configure` itself.
MANY = 12_000


@pytest.fixture
def admin(queue: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url(), autocommit=True) as connection:
        connection.execute(f'SET search_path = "{queue}"'.encode())
        yield connection


def sums(queue: str) -> dict[str, list[Any]]:
    """What does not add up. More may run than a limit allows that was set meanwhile."""
    found = wrong(queue)
    found.pop("no key has more than the most slots it ever had", None)
    return found


def is_shut(admin: psycopg.Connection[Any]) -> bool:
    return admin.execute("SELECT count(*) FROM topic WHERE shut > 0").fetchone() != (0,)


def test_a_long_backlog_obeys_a_new_key_limit_in_its_order(
    broker: PostgresBroker, queue: str, admin: psycopg.Connection[Any]
) -> None:
    messages = [a_message(key=f"k{n % 3000}") for n in range(MANY)]
    for start in range(0, MANY, 1000):
        broker.publish(messages[start : start + 1000])
    broker.configure([a_topic(key_limit=1)])
    assert not is_shut(admin)
    assert wrong(queue) == {}
    assert broker.stats().topics["default"].claimable == 3000
    hand, order = Hand(broker), defaultdict(list)
    while claims := hand.claim(1000):
        assert len({claim.key for claim in claims}) == len(claims)
        for claim in claims:
            order[claim.key].append(claim.id)
        hand.ack(*claims)
    assert sum(map(len, order.values())) == MANY
    assert order["k7"] == ids(messages[7::3000])


def test_while_a_topic_is_shut_it_takes_messages_and_hands_over_none(
    broker: PostgresBroker,
    queue: str,
    admin: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(MANY // 1000):
        broker.publish(some_messages(1000, key="k"))
    hand = Hand(broker)
    held = hand.claim(2)
    with monkeypatch.context() as patched:
        patched.setattr(PostgresBroker, "regate", lambda *_: None)
        broker.configure([a_topic(key_limit=1)])
        assert is_shut(admin)
        late = a_message(key="late")
        broker.publish([late, a_message(topic="other")])
        assert [claim.topic for claim in hand.claim(5)] == ["other"]
        topic = broker.stats().topics["default"]
        assert (topic.waiting, topic.claimable, topic.leased) == (MANY - 1, 0, 2)
        hand.fail(held.pop(0))
        assert broker.wait_for_work(Subscription(("default",)), 0.2) is False
    broker.tick()  # anybody's goes on with it
    while is_shut(admin):
        broker.tick()
    assert wrong(queue) == {}
    assert ids(hand.claim(5)) == [late.id], "the key's only slot is taken"
    hand.ack(held.pop())
    assert [claim.failures for claim in hand.claim(5)] == [1], "what came back has kept its place"


class Bystander:
    """Does to the topic whatever may be done, while it passes new gates."""

    def __init__(self, broker: PostgresBroker, seed: int) -> None:
        self.broker, self.dice = broker, random.Random(seed)
        self.hand = Hand(broker)
        self.held: list[Claim] = []

    def act(self) -> None:
        acts: list[Callable[[], object]] = [self.publish, self.publish, self.claim, self.end]
        self.dice.choice([*acts, self.cancel, self.requeue, self.replay])()

    def publish(self) -> None:
        dice = self.dice
        self.broker.publish(
            [
                a_message(
                    key=dice.choice(KEYS),
                    priority=dice.choice((1, 5, 9)),
                    delay=dice.choice((None, None, 600.0)),
                )
                for _ in range(dice.randint(1, 4))
            ]
        )

    def claim(self) -> None:
        self.held += self.hand.claim(self.dice.randint(1, 5))

    def end(self) -> None:
        if self.held:
            claim = self.held.pop(self.dice.randrange(len(self.held)))
            hand, dice = self.hand, self.dice
            dice.choice(
                [
                    lambda: hand.ack(claim),
                    lambda: hand.bury(claim),
                    lambda: hand.fail(claim),
                    lambda: hand.fail(claim, delay=600.0),
                ]
            )()

    def cancel(self) -> None:
        some = self.broker.peek("default", State.WAITING, 30)
        if some:
            self.broker.cancel([self.dice.choice(some).id])

    def requeue(self) -> None:
        if self.held:
            assert self.broker.requeue([self.held.pop().id])

    def replay(self) -> None:
        self.broker.replay([letter.id for letter in self.broker.dead(limit=1)])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_between_two_steps_everything_adds_up(
    broker: PostgresBroker, queue: str, admin: psycopg.Connection[Any], seed: int
) -> None:
    bystander, dice = Bystander(broker, seed), random.Random(seed)
    for _ in range(30):
        bystander.act()
    for gate in dice.sample([*GATES], k=5):
        broker.configure([a_topic(**GATES[gate])], QueuePolicy(limit=100))
        assert sums(queue) == {}, gate
        admin.execute("SELECT shut_1(id) FROM topic")
        for _ in range(200):
            if admin.execute("SELECT regate_1(3)").fetchone() == (False,):
                break
            bystander.act()
        assert not is_shut(admin)
        assert sums(queue) == {}, gate
        for _ in range(10):
            bystander.act()
        assert sums(queue) == {}, gate
