"""Limits of a topic, a key and the whole queue: never exceeded, always used up, obeyed from the next claim on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from millgate.brokers.base import Broker
from millgate.queues import QueuePolicy, Subscription
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import Hand, ids

PassTime = Callable[[float], None]


def test_a_topics_limit_holds_over_all_workers(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=3)])
    broker.publish(some_messages(10))
    other = Hand(broker)
    first = hand.claim(2)
    assert len(other.claim(10)) == 1
    assert hand.claim(10) == other.claim(10) == []
    hand.ack(first[0])
    assert len(other.claim(10)) == 1


def test_every_kind_of_settlement_frees_the_slot(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=1)])
    broker.publish(some_messages(5))
    hand.ack(hand.one())
    hand.bury(hand.one())
    hand.drop(hand.one())
    hand.fail(hand.one(), delay=60)
    broker.requeue(ids([hand.one()]))
    assert len(hand.claim(5)) == 1


def test_what_a_limit_refuses_is_charged_nothing(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=1)])
    broker.publish(some_messages(2))
    first = hand.one()
    for _ in range(20):
        assert hand.claim(5) == []
    hand.ack(first)
    claim = hand.one()
    assert (claim.attempt, claim.failures, claim.interruptions, claim.losses) == (1, 0, 0, 0)


def test_a_limit_is_raised_and_lowered_while_work_runs(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(20))
    broker.configure([a_topic(limit=2)])
    held = hand.claim(10)
    assert len(held) == 2
    broker.configure([a_topic(limit=5)])
    held += hand.claim(10)
    assert len(held) == 5
    broker.configure([a_topic(limit=3)])
    hand.ack(held.pop(), held.pop())
    assert hand.claim(10) == []
    hand.ack(held.pop())
    assert len(hand.claim(10)) == 1


def test_a_limit_set_on_a_topic_that_runs_already_counts_what_runs(
    broker: Broker, hand: Hand
) -> None:
    broker.publish(some_messages(5))
    held = hand.claim(2)
    broker.configure([a_topic(limit=2)])
    assert hand.claim(5) == []
    hand.ack(*held)
    assert len(hand.claim(5)) == 2


def test_a_limit_that_is_taken_away_holds_nobody(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=1)])
    broker.publish(some_messages(5))
    hand.one()
    broker.configure([a_topic()])
    assert len(hand.claim(5)) == 4


#: What lets two of a topic's messages run at once: its policy, the queue's.
BOUNDS: dict[str, tuple[dict[str, Any], QueuePolicy]] = {
    "topic": ({"limit": 2}, QueuePolicy()),
    "key": ({"key_limit": 2}, QueuePolicy()),
    "queue": ({}, QueuePolicy(limit=2)),
    "reserve": ({"reserve": 1}, QueuePolicy(limit=2)),
    "all": ({"limit": 2, "key_limit": 2, "reserve": 2}, QueuePolicy(limit=2)),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_slot_of_a_killed_holder_comes_back_with_its_lease(
    broker: Broker, hand: Hand, pass_time: PassTime, bound: str
) -> None:
    policy, queue = BOUNDS[bound]
    broker.configure([a_topic(lease=1.0, **policy)], queue)
    broker.publish(some_messages(4, key="k"))
    assert len(hand.claim(5)) == 2
    pass_time(1.1)
    survivor = Hand(broker)
    got: list[str] = []

    def both() -> bool:
        pass_time(0.05)
        got.extend(ids(survivor.claim(5)))
        return len(got) == 2

    eventually(both, timeout=4)
    assert broker.stats().topics["default"].leased == 2


def test_claimable_says_what_the_limit_leaves(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=3)])
    broker.publish(some_messages(10))
    hand.claim(1)
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.claimable, topic.leased) == (9, 2, 1)


# --- per key -------------------------------------------------------------------------------------


def test_a_keys_limit_holds_and_other_keys_pass(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=2)])
    broker.publish([*some_messages(5, key="a"), *some_messages(3, key="b"), *some_messages(2)])
    claims = hand.claim(20)
    assert Counter(claim.key for claim in claims) == {"a": 2, "b": 2, None: 2}
    assert hand.claim(20) == []
    hand.ack(next(claim for claim in claims if claim.key == "a"))
    assert [claim.key for claim in hand.claim(20)] == ["a"]


def test_a_hot_key_does_not_slow_or_hide_the_others(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    for _ in range(3):
        broker.publish(some_messages(500, key="hot"))
    cold = [a_message(key=f"k{n}") for n in range(20)]
    broker.publish(cold)
    claims = hand.claim(21)
    assert sorted(ids(claims)[1:]) == sorted(ids(cold))
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.claimable) == (1499, 0)


def test_the_messages_of_one_key_run_in_order(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    messages = some_messages(6, key="a")
    broker.publish(messages)
    assert hand.run_all(batch=10) == ids(messages)


def test_a_higher_priority_overtakes_within_its_key(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    low, high = a_message(key="a", priority=2), a_message(key="a", priority=8)
    broker.publish([low])
    broker.publish([high])
    assert hand.run_all(batch=5) == ids([high, low])


def test_a_keys_slot_is_freed_by_a_retry_that_waits(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    first, second = some_messages(2, key="a")
    broker.publish([first, second])
    hand.fail(hand.one(), delay=60)
    assert ids(hand.claim(5)) == [second.id]


def test_a_keys_slot_comes_back_from_every_end(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(key_limit=1, lease=1.0)])
    messages = some_messages(6, key="a")
    broker.publish(messages)
    hand.ack(hand.one())
    hand.bury(hand.one())
    hand.drop(hand.one())
    broker.cancel([messages[3].id])
    gone = hand.one()
    assert gone.id == messages[4].id
    assert hand.claim() == []
    broker.requeue([gone.id])
    assert hand.run_all() == ids(messages[4:])
    broker.replay([messages[1].id])
    assert hand.run_all() == [messages[1].id]


def test_a_key_limit_is_raised_lowered_and_lifted_while_work_waits(
    broker: Broker, hand: Hand
) -> None:
    broker.publish(some_messages(9, key="a"))
    broker.configure([a_topic(key_limit=1)])
    held = hand.claim(9)
    assert len(held) == 1
    broker.configure([a_topic(key_limit=3)])
    held += hand.claim(9)
    assert len(held) == 3
    broker.configure([a_topic(key_limit=1)])
    hand.ack(held.pop(), held.pop())
    assert hand.claim(9) == []
    hand.ack(held.pop())
    held += hand.claim(9)
    assert len(held) == 1
    broker.configure([a_topic()])
    assert len(hand.claim(9)) == 5


# --- the whole queue -----------------------------------------------------------------------------


@pytest.mark.parametrize("back", ["failed", "requeued", "lost"])
def test_a_key_limit_that_sank_holds_for_what_comes_back(
    broker: Broker, hand: Hand, pass_time: PassTime, back: str
) -> None:
    broker.configure([a_topic(key_limit=3, lease=1.0)])
    broker.publish(messages := some_messages(3, key="k"))
    claims = hand.claim(3)
    broker.configure([a_topic(key_limit=1, lease=1.0)])
    if back == "failed":
        for claim in claims:
            hand.fail(claim)
    elif back == "requeued":
        broker.requeue(ids(messages))
    else:
        pass_time(1.1)
    ran = []
    while len(ran) < 3:
        claims = hand.claim(5)
        assert len(claims) <= 1
        ran += ids(claims)
        hand.ack(*claims)
        pass_time(0.02)
    assert sorted(ran) == sorted(ids(messages))


def test_the_queues_limit_holds_over_all_topics(broker: Broker, hand: Hand) -> None:
    broker.configure([], QueuePolicy(limit=4))
    broker.publish([*some_messages(5, topic="a"), *some_messages(5, topic="b")])
    held = hand.claim(10)
    assert len(held) == 4
    assert Hand(broker).claim(10) == []
    hand.ack(held[0])
    assert len(hand.claim(10)) == 1


def test_a_reserve_is_kept_for_its_topic(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("vip", reserve=3), a_topic("bulk")], QueuePolicy(limit=10))
    broker.publish([*some_messages(20, topic="bulk")])
    bulk = hand.claim(20)
    assert len(bulk) == 7
    broker.publish(some_messages(20, topic="vip"))
    vip = hand.claim(20)
    assert [claim.topic for claim in vip] == ["vip"] * 3
    hand.ack(bulk.pop())
    assert [claim.topic for claim in hand.claim(20)] != []
    assert hand.claim(20) == []


def test_a_reserve_is_found_behind_any_number_of_topics(broker: Broker, hand: Hand) -> None:
    others = [f"t{n}" for n in range(600)]
    broker.publish([a_message(topic=topic) for topic in others])
    broker.configure([a_topic("vip", reserve=1)], QueuePolicy(limit=2))
    broker.publish([last := a_message(topic="vip")])
    hand.one(*others)
    assert broker.wait_for_work(Subscription(), 0.0)
    assert hand.one().id == last.id


def test_a_reserve_that_is_used_is_kept_no_longer(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic("vip", reserve=2, limit=2), a_topic("bulk")], QueuePolicy(limit=5))
    broker.publish([*some_messages(2, topic="vip"), *some_messages(9, topic="bulk")])
    topics = Counter(claim.topic for claim in hand.claim(20))
    assert topics == {"vip": 2, "bulk": 3}


def test_nothing_is_reserved_for_topics_that_are_not_declared(broker: Broker, hand: Hand) -> None:
    defaults = a_topic("defaults", reserve=2)
    broker.configure([], QueuePolicy(limit=3, defaults=defaults))
    broker.publish([a_message(topic="other")])
    hand.ack(hand.one())
    broker.publish(some_messages(5, topic="busy"))
    assert broker.stats().topics["busy"].claimable == 3
    assert len(hand.claim(5)) == 3


def test_the_queues_limit_changes_while_work_runs(broker: Broker, hand: Hand) -> None:
    broker.configure([], QueuePolicy(limit=2))
    broker.publish(some_messages(10))
    held = hand.claim(10)
    broker.configure([], QueuePolicy(limit=4))
    held += hand.claim(10)
    assert len(held) == 4
    broker.configure([], QueuePolicy(limit=1))
    hand.ack(*held[:3])
    assert hand.claim(10) == []
    broker.configure([], QueuePolicy())
    assert len(hand.claim(10)) == 6


def test_what_comes_back_lets_a_higher_priority_of_its_key_go_first(
    broker: Broker, hand: Hand
) -> None:
    broker.configure([a_topic(key_limit=1)])
    broker.publish([a_message(id="low", key="k", priority=3)])
    low = hand.one()
    broker.publish([a_message(id="high", key="k", priority=8)])
    hand.fail(low)
    assert [claim.id for claim in hand.claim(2)] == ["high"]


def test_what_a_key_held_back_is_as_old_as_its_slot_is_free(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(key_limit=1)])
    broker.publish([a_message(key="k")])
    first = hand.one()
    broker.publish([a_message(key="k", priority=8)])
    pass_time(1.0)
    hand.fail(first)
    oldest = broker.stats().topics["default"].oldest
    assert oldest is not None
    assert oldest < 0.8
    assert hand.one().age < 0.9


def test_what_a_key_held_back_is_as_old_as_new_gates_let_it_start(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(key_limit=1)])
    broker.publish(some_messages(3, key="k"))
    hand.one()
    pass_time(1.0)
    broker.configure([a_topic()])
    oldest = broker.stats().topics["default"].oldest
    assert oldest is not None
    assert oldest < 0.8
    assert [claim.age < 0.9 for claim in hand.claim(2)] == [True, True]


def test_what_new_gates_hold_back_makes_nobody_else_old(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.publish(some_messages(2, key="k"))
    for claim in hand.claim(2):
        hand.fail(claim)
    broker.configure([a_topic(key_limit=1)])
    pass_time(1.0)
    hand.one()
    broker.publish([a_message(key="other")])
    oldest = broker.stats().topics["default"].oldest
    assert oldest is not None
    assert oldest < 0.8
