"""fence: when it returns, no claim of that worker follows; what it holds it may finish."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf, nan

import pytest

from millgate.brokers.base import Broker, Fenced
from millgate.errors import InvalidInput
from millgate.fleet import WorkerState
from support.builders import an_info, some_messages
from support.working import Hand

PassTime = Callable[[float], None]


def test_a_fenced_worker_is_given_nothing(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    hand.claim(1)
    assert broker.fence(hand.worker.name, 60) == Fenced(known=True, leased=1)
    answer = hand.ask()
    assert (answer.claims, answer.state) == ((), WorkerState.FENCED)
    assert len(Hand(broker).claim()) == 1


def test_an_unknown_worker_is_not_fenced(broker: Broker) -> None:
    assert broker.fence("nobody", 60) == Fenced(known=False, leased=None)
    assert broker.unfence("nobody") is False


@pytest.mark.parametrize("ttl", [nan, inf, 1e300], ids=str)
def test_a_time_that_no_fence_can_last_is_refused(broker: Broker, hand: Hand, ttl: float) -> None:
    with pytest.raises(InvalidInput, match="finite"):
        broker.fence(hand.worker.name, ttl)
    assert hand.ask().state is WorkerState.ACTIVE


def test_unfence_lifts_it(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1))
    assert broker.unfence(hand.worker.name) is False
    broker.fence(hand.worker.name, 60)
    assert broker.unfence(hand.worker.name) is True
    assert len(hand.claim()) == 1


def test_a_fence_ends_by_itself(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.publish(some_messages(1))
    broker.fence(hand.worker.name, 0.4)
    due = hand.ask().next_due
    assert due is not None
    assert due < 0.41
    pass_time(0.5)
    assert len(hand.claim()) == 1


def test_a_second_fence_replaces_the_first(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.publish(some_messages(1))
    broker.fence(hand.worker.name, 0.2)
    broker.fence(hand.worker.name, 60)
    pass_time(0.3)
    assert hand.claim() == []


def test_a_fence_stays_with_its_incarnation(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    broker.fence(hand.worker.name, 60)
    broker.register(hand.worker, an_info(slots=3))
    assert hand.claim() == []
    newer = Hand(broker, hand.worker.name)
    assert len(newer.claim()) == 1


def test_stats_tell_of_the_fence_and_of_what_is_held(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    claims = hand.claim(2)
    broker.fence(hand.worker.name, 60)
    hand.beat(*claims, busy=2)
    row = broker.stats().workers[0]
    assert (row.state, row.leased, row.idle) == (WorkerState.FENCED, 2, False)
    assert row.fence_left is not None
    assert 50 < row.fence_left <= 60
    hand.ack(*claims)
    hand.beat(busy=0)
    assert broker.stats().workers[0].idle


def test_no_claim_follows_once_fence_has_returned(
    broker: Broker, make_broker: Callable[[], Broker]
) -> None:
    rounds = 30
    for _ in range(rounds):
        worker = Hand(make_broker())
        broker.publish(some_messages(200))
        taken: list[int] = []
        stop = threading.Event()

        def hammer(
            worker: Hand = worker, taken: list[int] = taken, stop: threading.Event = stop
        ) -> None:
            while not stop.is_set():
                taken.append(len(worker.claim(1)))

        thread = threading.Thread(target=hammer)
        thread.start()
        while not taken:
            stop.wait(0.0005)
        told = broker.fence(worker.worker.name, 60)
        held = broker.stats()
        row = next(row for row in held.workers if row.name == worker.worker.name)
        stop.set()
        thread.join()
        assert told.leased == row.leased == sum(taken)
        broker.unregister(worker.worker)
        broker.purge("default")
