"""Many clients do everything at once; afterwards every counter equals what it counts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from millgate.brokers.base import Ask
from millgate.brokers.postgres import PostgresBroker
from millgate.fleet import Beat
from millgate.ids import new_incarnation
from millgate.limits import Rate
from millgate.message import Claim, Group, Message
from millgate.outcome import Reason
from millgate.queues import Ordering, QueuePolicy
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement
from support.builders import a_message, a_topic
from support.postgres import open_queue
from support.postgres_checks import wrong
from support.working import Hand

TOPICS = ("plain", "limited", "keyed", "fifo", "ordered", "rated")
POLICIES = [
    a_topic("plain", dead_max=20),
    a_topic("limited", limit=5, reserve=1, lease=1.0),
    a_topic("keyed", key_limit=2, lease=1.0),
    a_topic("fifo", ordering=Ordering.FIFO),
    a_topic("ordered", ordering=Ordering.KEY, limit=6),
    a_topic("rated", rate=Rate(200, 1.0, 20)),
]


class Client:
    """One client that does what its dice say, until told to stop."""

    def __init__(self, queue: str, number: int) -> None:
        self.broker = open_queue(queue, deadline=30.0)
        self.dice = random.Random(number)
        self.hand = Hand(self.broker, f"storm-{number}")
        self.held: list[Claim] = []
        self.known: list[str] = []
        self.number = number
        self.problem: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        acts = [self.publish] * 4 + [self.claim] * 6 + [self.settle, self.steer, self.gather]
        try:
            while not stop.is_set():
                self.dice.choice(acts)()
        except BaseException as error:  # noqa: BLE001 -- told by the test
            self.problem = error

    def message(self, **fields: Any) -> Message:
        dice = self.dice
        made = a_message(
            id=f"s{self.number}-{new_incarnation()}",
            topic=dice.choice(TOPICS),
            priority=dice.choice((5, 5, 5, 1, 9)),
            key=dice.choice((None, "a", "b", "c")),
            delay=dice.choice((None, None, None, 0.05, 0.3)),
            expires_in=dice.choice((None, None, None, 0.1)),
            unique=dice.choice((None, None, None, "u1", "u2")),
            **fields,
        )
        self.known.append(made.id)
        return made

    def publish(self) -> None:
        self.broker.publish([self.message() for _ in range(self.dice.randint(1, 8))])

    def gather(self) -> None:
        members = [self.message(chain=(a_message(id=f"n-{new_incarnation()}"),)) for _ in range(3)]
        names = (members[0].id, members[1].chain[0].id, members[2].id)
        group = Group(new_incarnation(), names, self.message(), self.dice.random() < 0.5)
        self.broker.publish(members, group)

    def claim(self) -> None:
        answer = self.broker.claim(self.hand.worker, Ask(n=self.dice.randint(1, 10)), self._ends())
        self.held = list(answer.claims)

    def settle(self) -> None:
        self.broker.settle(self._ends())
        self.held = []

    def steer(self) -> None:
        broker, dice = self.broker, self.dice
        some = dice.sample(self.known, min(5, len(self.known)))
        acts: dict[str, Callable[[], object]] = {
            "cancel": lambda: broker.cancel(some),
            "requeue": lambda: broker.requeue(some),
            "replay": lambda: broker.replay([letter.id for letter in broker.dead(limit=3)]),
            "extend": lambda: broker.extend(self.hand.worker, [c.ref for c in self.held], Beat()),
            "tick": broker.tick,
            "forget": lambda: broker.purge_dead(ids=[letter.id for letter in broker.dead(limit=2)]),
            "purge": lambda: broker.purge(dice.choice(TOPICS)),
            "restart": self.restart,
            "configure": lambda: broker.configure(
                [a_topic("keyed", key_limit=dice.randint(1, 3), lease=1.0)]
            ),
        }
        often, seldom = [*acts][:6], [*acts][6:]
        acts[dice.choice(often * 4 + seldom)]()

    def restart(self) -> None:
        self.broker.unregister(self.hand.worker)
        self.hand, self.held = Hand(self.broker, f"storm-{self.number}"), []

    def _ends(self) -> list[Settlement]:
        return [self._end(claim) for claim in self.held if self.dice.random() < 0.95]

    def _end(self, claim: Claim) -> Settlement:
        draw = self.dice.random()
        if draw < 0.6:
            follow = [self.message()] if draw < 0.1 else []
            return Ack(claim.ref, b"1" if draw < 0.3 else None, publish=follow)
        if draw < 0.8:
            charge = self.dice.choice(tuple(Charge))
            return Later(claim.ref, self.dice.choice((0.0, 0.0, 0.1)), charge)
        return Bury(claim.ref, Reason.FAILED) if draw < 0.95 else Drop(claim.ref)


def test_after_a_storm_every_counter_equals_what_it_counts(
    broker: PostgresBroker, queue: str
) -> None:
    broker.configure(POLICIES, QueuePolicy(limit=40))
    clients = [Client(queue, number) for number in range(6)]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    seen = []
    for _ in range(8):
        time.sleep(1.0)
        seen.append(wrong(queue))  # also while it rages: every transaction leaves all in order
    stop.set()
    for thread in threads:
        thread.join(60)
    assert [client.problem for client in clients if client.problem is not None] == []
    assert [wrong for wrong in [*seen, wrong(queue)] if wrong] == []
    stats = broker.stats().topics
    assert sum(topic.completed or 0 for topic in stats.values()) > 50
    for client in clients:
        some = client.known[:50]
        assert [state.id for state in broker.states(some)] == some
        client.broker.close()
