"""claim: only what may start now, to workers that are known, with the attempt counted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from millgate.brokers.base import MAX_BATCH, Ask, Broker, State
from millgate.errors import InvalidInput
from millgate.fleet import WorkerRef, WorkerState
from millgate.queues import QueuePolicy, Subscription
from millgate.settlement import Ack
from support.builders import a_message, a_topic, a_worker, some_messages
from support.working import Hand, ids


def test_a_claim_hands_over_at_most_n(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(5))
    assert len(hand.claim(3)) == 3
    assert len(hand.claim(3)) == 2
    assert hand.claim(3) == []


def test_what_one_worker_has_no_other_is_given(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    other = Hand(broker)
    assert {*ids(hand.claim()), *ids(other.claim(5))} == {
        peeked.id for peeked in broker.peek("default", State.RUNNING)
    }
    assert hand.claim(5) == other.claim(5) == []


def test_a_topic_that_has_just_appeared_is_claimed_from_beside_the_others(
    broker: Broker, hand: Hand, make_broker: Callable[[], Broker]
) -> None:
    broker.publish(some_messages(1, topic="old"))
    assert len(hand.claim(5, "*")) == 1
    make_broker().publish([*some_messages(1, topic="old"), a_message(topic="new")])
    assert {claim.topic for claim in hand.claim(5, "old", "new")} == {"old", "new"}
    make_broker().publish([*some_messages(1, topic="old"), a_message(topic="newer")])
    assert {claim.topic for claim in hand.claim(5, "[a-z]*")} == {"old", "newer"}
    make_broker().publish([*some_messages(1, topic="old"), a_message(topic="newest")])
    assert {claim.topic for claim in hand.claim(5, "[a-z]*")} == {"old", "newest"}


def test_tokens_are_unique_to_the_claim(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(10))
    first = hand.claim(10)
    for claim in first:
        hand.fail(claim)
    second = hand.claim(10)
    assert len({claim.token for claim in [*first, *second]}) == 20


def test_n_zero_asks_only_for_the_state(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1))
    answer = hand.ask(0)
    assert (answer.claims, answer.state) == ((), WorkerState.ACTIVE)


def test_a_negative_or_huge_n_is_refused(broker: Broker, hand: Hand) -> None:
    for n in (-1, MAX_BATCH + 1):
        with pytest.raises(InvalidInput):
            hand.ask(n)


def test_a_worker_that_never_registered_is_given_nothing(broker: Broker) -> None:
    broker.publish(some_messages(1))
    answer = broker.claim(a_worker(), Ask())
    assert (answer.claims, answer.state) == ((), WorkerState.UNKNOWN)


def test_an_older_incarnation_is_given_nothing_and_still_settles(
    broker: Broker, hand: Hand
) -> None:
    broker.publish(some_messages(2))
    claim = hand.one()
    newer = Hand(broker, hand.worker.name)
    answer = hand.ask()
    assert (answer.claims, answer.state) == ((), WorkerState.UNKNOWN)
    hand.ack(claim)
    assert len(newer.claim()) == 1


def test_another_name_with_the_same_incarnation_is_unknown(broker: Broker, hand: Hand) -> None:
    stranger = WorkerRef("stranger", hand.worker.incarnation)
    assert broker.claim(stranger, Ask()).state is WorkerState.UNKNOWN


def test_a_suspended_queue_hands_over_nothing(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1))
    broker.configure([], QueuePolicy(suspended=True))
    assert hand.claim() == []
    broker.configure([], QueuePolicy())
    assert len(hand.claim()) == 1


def test_the_lease_and_the_age_are_said(
    broker: Broker, hand: Hand, pass_time: Callable[[float], None]
) -> None:
    broker.configure([a_topic(lease=17.0)])
    broker.publish([a_message()])
    pass_time(0.3)
    claim = hand.one()
    assert claim.lease == 17.0
    assert 0.29 < claim.age < 5


def test_a_claim_carries_the_revision_of_the_configuration(broker: Broker, hand: Hand) -> None:
    revision = broker.configure([a_topic(limit=3)])
    assert hand.ask().revision == revision


def test_settlements_are_carried_out_before_the_claim(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(limit=1)])
    broker.publish(some_messages(2))
    first = hand.one()
    assert hand.claim() == []
    answer = hand.ask(1, [Ack(first.ref)])
    assert len(answer.claims) == 1
    assert answer.stale == ()


def test_a_repeated_claim_with_settlements_names_them_stale(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1))
    first = hand.one()
    assert hand.ask(1, [Ack(first.ref)]).stale == ()
    assert hand.ask(1, [Ack(first.ref)]).stale == (first.id,)
    assert broker.stats().topics["default"].completed == 1


def test_the_attempt_is_counted_at_the_claim(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(1))
    counts = []
    for _ in range(3):
        claim = hand.one()
        counts.append((claim.attempt, claim.failures))
        hand.fail(claim)
    assert counts == [(1, 0), (2, 1), (3, 2)]


def test_nothing_is_handed_over_twice_to_racing_workers(
    broker: Broker, make_broker: Callable[[], Broker]
) -> None:
    messages = some_messages(400)
    broker.publish(messages)
    taken: list[str] = []

    def race(client: Broker) -> None:
        taken.extend(Hand(client).run_all(batch=7))

    threads = [threading.Thread(target=race, args=(make_broker(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(ids(messages))


def test_the_subscription_decides_which_topics(broker: Broker, hand: Hand) -> None:
    for topic in ("video.eu", "video.us", "mail", "audio"):
        broker.publish([a_message(topic=topic)])

    def topics(include: tuple[str, ...], exclude: tuple[str, ...] = ()) -> list[str]:
        claims = hand.ask(9, (), Subscription(include, exclude)).claims
        broker.requeue(ids(claims))
        return sorted(claim.topic for claim in claims)

    assert topics(("video.*",)) == ["video.eu", "video.us"]
    assert topics(("mail", "audio")) == ["audio", "mail"]
    assert topics(("*",), ("video.*",)) == ["audio", "mail"]
    assert topics((), ("mail",)) == ["audio", "video.eu", "video.us"]
    assert topics(()) == ["audio", "mail", "video.eu", "video.us"]
    assert topics(("video.[!e]*",)) == ["video.us"]
    assert topics(("nothing",)) == []


def test_a_new_topic_is_seen_by_an_old_subscription(broker: Broker, hand: Hand) -> None:
    assert hand.claim(1, "new*") == []
    broker.publish([a_message(topic="new-1")])
    assert len(hand.claim(1, "new*")) == 1
