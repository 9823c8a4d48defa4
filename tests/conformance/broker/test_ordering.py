"""FIFO and per-key order: the next starts when the previous one has ended for good, retries included."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker
from millgate.queues import Ordering
from millgate.settlement import Later
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import Hand, ids

PassTime = Callable[[float], None]


def test_fifo_runs_one_at_a_time_in_order(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(ordering=Ordering.FIFO)])
    messages = some_messages(6)
    broker.publish(messages)
    assert len(hand.claim(10)) == 1
    broker.requeue(ids(messages))
    assert hand.run_all(batch=10) == ids(messages)


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
def test_a_retry_that_waits_when_an_order_comes_has_the_place(
    broker: Broker, hand: Hand, pass_time: PassTime, ordering: Ordering
) -> None:
    first, second = some_messages(2, key="k")
    broker.publish([first, second])
    hand.fail(hand.one(), delay=1.0)
    broker.configure([a_topic(ordering=ordering)])
    assert hand.claim(5) == []
    pass_time(1.1)
    assert hand.run_all() == ids([first, second])


def test_per_key_runs_one_of_a_key_at_a_time_in_order(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(ordering=Ordering.KEY)])
    a, b = some_messages(4, key="a"), some_messages(4, key="b")
    broker.publish([*a, *b, free := a_message()])
    assert ids(hand.claim(10)) == [a[0].id, b[0].id, free.id]
    broker.requeue([a[0].id, b[0].id, free.id])
    started = hand.run_all(batch=10)
    assert [one for one in started if one in ids(a)] == ids(a)
    assert [one for one in started if one in ids(b)] == ids(b)


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
def test_the_next_does_not_start_while_a_retry_waits(
    broker: Broker, hand: Hand, pass_time: PassTime, ordering: Ordering
) -> None:
    broker.configure([a_topic(ordering=ordering)])
    first, second = some_messages(2, key="k")
    broker.publish([first, second])
    hand.fail(hand.one(), delay=0.4)
    assert hand.claim(5) == []
    pass_time(0.5)
    claim = hand.one()
    assert (claim.id, claim.attempt) == (first.id, 2)
    assert hand.claim(5) == []
    hand.ack(claim)
    assert ids(hand.claim(5)) == [second.id]


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
def test_a_higher_priority_does_not_overtake_one_that_has_started(
    broker: Broker, hand: Hand, ordering: Ordering
) -> None:
    broker.configure([a_topic(ordering=ordering)])
    first, high = a_message(key="k", priority=1), a_message(key="k", priority=9)
    broker.publish([first])
    hand.fail(hand.one())
    broker.publish([high])
    assert ids(hand.claim(5)) == [first.id]


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
def test_every_end_for_good_lets_the_next_start(
    broker: Broker, hand: Hand, ordering: Ordering
) -> None:
    broker.configure([a_topic(ordering=ordering)])
    messages = some_messages(5, key="k")
    broker.publish(messages)
    hand.ack(hand.one())
    hand.bury(hand.one())
    hand.drop(hand.one())
    hand.fail(hand.one(), delay=60)
    broker.cancel([messages[3].id])
    assert ids(hand.claim(5)) == [messages[4].id]


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
def test_a_lost_run_goes_before_the_next(
    broker: Broker, hand: Hand, pass_time: PassTime, ordering: Ordering
) -> None:
    broker.configure([a_topic(ordering=ordering, lease=1.0)])
    first, second = some_messages(2, key="k")
    broker.publish([first, second])
    hand.one()
    pass_time(1.1)
    survivor = Hand(broker)

    def again() -> list[str]:
        pass_time(0.05)
        return ids(survivor.claim(5))

    assert eventually(again, timeout=4) == [first.id]


def one_at_a_time(hand: Hand, expected: list[str]) -> None:
    """Expect that these, and no others, are handed over, each when the one before has ended."""
    ran = []
    while claims := hand.claim(5):
        assert len(claims) == 1
        ran += ids(claims)
        hand.ack(*claims)
    assert sorted(ran) == sorted(expected)


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_an_order_that_comes_while_retries_wait_lets_one_run_at_a_time(
    broker: Broker, hand: Hand, pass_time: PassTime, ordering: Ordering, delay: float
) -> None:
    broker.publish(messages := some_messages(3, key="k"))
    for claim in hand.claim(3):
        hand.fail(claim, delay)
    broker.publish([late := a_message(key="k")])
    broker.configure([a_topic(ordering=ordering)])
    pass_time(2 * delay)
    one_at_a_time(hand, [*ids(messages), late.id])


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.KEY])
@pytest.mark.parametrize("back", ["at once", "later", "together", "requeued"])
def test_an_order_that_comes_while_several_run_lets_one_run_at_a_time_after(
    broker: Broker, hand: Hand, pass_time: PassTime, ordering: Ordering, back: str
) -> None:
    broker.publish(messages := some_messages(3, key="k"))
    claims = hand.claim(3)
    broker.configure([a_topic(ordering=ordering)])
    if back == "requeued":
        assert sorted(broker.requeue(ids(messages))) == sorted(ids(messages))
    elif back == "together":
        assert broker.settle([Later(c.ref, 0.4 * (n > 0)) for n, c in enumerate(claims)]) == ()
    else:
        for claim in claims:
            hand.fail(claim, 0.4 if back == "later" else 0.0)
    pass_time(0.8 if back in ("later", "together") else 0.0)
    one_at_a_time(hand, ids(messages))


def test_an_order_may_be_set_and_lifted_while_work_waits(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(6, key="k"))
    held = hand.claim(2)
    broker.configure([a_topic(ordering=Ordering.KEY)])
    assert hand.claim(5) == []
    hand.ack(*held)
    held = hand.claim(5)
    assert len(held) == 1
    broker.configure([a_topic()])
    assert len(hand.claim(5)) == 3
