"""wait_for_work: woken by what makes something claimable, or by interrupt, and never held beyond its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker
from millgate.limits import Rate
from millgate.message import Claim
from millgate.queues import QueuePolicy, Subscription
from support.builders import a_message, a_topic, some_messages
from support.working import Hand, ids

PassTime = Callable[[float], None]
ALL = Subscription()
pytestmark = pytest.mark.usefixtures("nobody_looks_now_and_then")


class Waiter:
    """One `wait_for_work` in a thread, and how it ended."""

    def __init__(
        self, broker: Broker, subscription: Subscription = ALL, timeout: float = 8.0
    ) -> None:
        self.answer: bool | None = None
        self.took = 0.0
        self._run = (broker, subscription, timeout)
        self.thread = threading.Thread(target=self._wait)
        self.thread.start()
        time.sleep(0.1)

    def _wait(self) -> None:
        broker, subscription, timeout = self._run
        start = time.monotonic()
        self.answer = broker.wait_for_work(subscription, timeout)
        self.took = time.monotonic() - start

    def woken(self) -> bool:
        """Whether it was woken well before its time."""
        self.thread.join(12)
        return self.answer is True and self.took < 4


def test_work_that_is_there_is_answered_at_once(broker: Broker) -> None:
    broker.publish([a_message()])
    start = time.monotonic()
    assert broker.wait_for_work(ALL, 8.0) is True
    assert time.monotonic() - start < 5


def test_nothing_to_do_ends_in_time(broker: Broker) -> None:
    start = time.monotonic()
    assert broker.wait_for_work(ALL, 0.3) is False
    assert 0.25 < time.monotonic() - start < 5


def test_what_no_rate_or_limit_lets_start_lets_a_worker_sleep(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("rated", rate=Rate(1, 60.0)), a_topic("full", limit=1)])
    for topic in ("rated", "full"):
        broker.publish(some_messages(3, topic=topic))
        assert len(hand.claim(3, topic)) == 1
    assert broker.wait_for_work(ALL, 0.5) is False


def test_a_publish_wakes(broker: Broker, make_broker: Callable[[], Broker]) -> None:
    waiter = Waiter(make_broker())
    broker.publish([a_message()])
    assert waiter.woken()


def test_work_for_others_is_not_worth_a_try(
    broker: Broker, make_broker: Callable[[], Broker]
) -> None:
    waiter = Waiter(make_broker(), Subscription(("mine",)), timeout=1.0)
    broker.publish([a_message(topic="theirs")])
    waiter.thread.join(12)
    assert waiter.answer is False


FREED: dict[str, Callable[[Broker, Hand, Claim], object]] = {
    "ack": lambda broker, hand, claim: hand.ack(claim),
    "retry": lambda broker, hand, claim: hand.fail(claim),
    "bury": lambda broker, hand, claim: hand.bury(claim),
    "unregister": lambda broker, hand, claim: broker.unregister(hand.worker),
    "requeue": lambda broker, hand, claim: broker.requeue([claim.id]),
    "limit": lambda broker, hand, claim: broker.configure([a_topic(limit=5)]),
}


@pytest.mark.parametrize("freed", FREED)
def test_a_slot_that_becomes_free_wakes(
    broker: Broker, make_broker: Callable[[], Broker], hand: Hand, freed: str
) -> None:
    broker.configure([a_topic(limit=1)])
    broker.publish(some_messages(2))
    claim = hand.one()
    waiter = Waiter(make_broker())
    assert waiter.answer is None
    FREED[freed](broker, hand, claim)
    assert waiter.woken()


def test_a_key_that_becomes_free_wakes(
    broker: Broker, make_broker: Callable[[], Broker], hand: Hand
) -> None:
    broker.configure([a_topic(key_limit=1)])
    broker.publish(some_messages(2, key="k"))
    claim = hand.one()
    waiter = Waiter(make_broker())
    assert waiter.answer is None
    hand.ack(claim)
    assert waiter.woken()


def test_resuming_a_topic_or_the_queue_wakes(
    broker: Broker, make_broker: Callable[[], Broker], hand: Hand
) -> None:
    broker.publish([a_message()])
    broker.pause("default", True)
    waiter = Waiter(make_broker())
    assert waiter.answer is None
    broker.pause("default", False)
    assert waiter.woken()
    broker.configure([], QueuePolicy(suspended=True))
    waiter = Waiter(make_broker())
    assert waiter.answer is None
    broker.configure([], QueuePolicy())
    assert waiter.woken()


def test_a_replay_wakes(broker: Broker, make_broker: Callable[[], Broker], hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.bury(hand.one())
    waiter = Waiter(make_broker())
    broker.replay([message.id])
    assert waiter.woken()


def test_time_that_makes_something_due_wakes(
    broker: Broker, make_broker: Callable[[], Broker], pass_time: PassTime
) -> None:
    broker.publish([a_message(delay=0.5)])
    waiter = Waiter(make_broker())
    pass_time(0.5)
    assert waiter.woken()


def test_interrupt_wakes_a_wait_in_another_thread(broker: Broker) -> None:
    waiter = Waiter(broker)
    broker.interrupt()
    assert waiter.woken()


def test_interrupt_makes_the_next_wait_return_at_once_and_only_that(broker: Broker) -> None:
    broker.interrupt()
    start = time.monotonic()
    broker.wait_for_work(ALL, 8.0)
    assert time.monotonic() - start < 5
    assert broker.wait_for_work(ALL, 0.2) is False


def test_every_publish_finds_a_worker_among_several(
    broker: Broker, make_broker: Callable[[], Broker]
) -> None:
    """Nothing is left lying while somebody waits."""
    stop = threading.Event()
    taken: list[str] = []
    clients = [make_broker() for _ in range(3)]

    def work(client: Broker) -> None:
        hand = Hand(client)
        while not stop.is_set():
            client.wait_for_work(ALL, 8.0)
            claims = hand.claim(1)
            hand.ack(*claims)
            taken.extend(ids(claims))

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    slowest = 0.0
    for n in range(30):
        start = time.monotonic()
        broker.publish([a_message(id=f"wake-{n}")])
        while len(taken) <= n and time.monotonic() - start < 8:
            time.sleep(0.001)
        slowest = max(slowest, time.monotonic() - start)
    stop.set()
    for client in clients:
        client.interrupt()
    for thread in threads:
        thread.join(12)
    assert len(taken) == 30
    assert slowest < 1.5
