"""Dead letters: whole, listed newest first, replayed, purged, bounded, forwarded or dropped as the topic says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker, State
from millgate.message import Options
from millgate.outcome import Failure, Reason
from millgate.queues import DeadPolicy, QueuePolicy
from millgate.settlement import Bury
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import A_FAILURE, Hand, ids

PassTime = Callable[[float], None]


def buried(broker: Broker, hand: Hand, count: int, topic: str = "default") -> list[str]:
    """Ids of dead letters, oldest first."""
    broker.publish(some_messages(count, topic=topic))
    claims = hand.claim(count, topic)
    for claim in claims:
        hand.bury(claim)
    return ids(claims)


def test_a_dead_letter_has_the_whole_message(broker: Broker, hand: Hand) -> None:
    sent = a_message(
        body=b"\x00body",
        key="k",
        priority=8,
        unique="u",
        result_ttl=3.0,
        headers={"a": "b"},
        options=Options(attempts=9),
        chain=(a_message(topic="next", feed=True),),
    )
    broker.publish([sent])
    hand.bury(hand.one(), reason=Reason.TIMED_OUT)
    letter = broker.dead_letter(sent.id)
    assert letter is not None
    assert letter.message == sent
    assert (letter.id, letter.topic, letter.reason) == (sent.id, "default", Reason.TIMED_OUT)
    assert (letter.failure, letter.attempt, letter.worker) == (A_FAILURE, 1, hand.worker.name)
    assert letter.died > 1e9


def test_an_unknown_dead_letter_is_none(broker: Broker) -> None:
    assert broker.dead_letter("nobody") is None


def test_the_list_is_newest_first_and_pages(broker: Broker, hand: Hand) -> None:
    dead = buried(broker, hand, 7)
    pages, after = [], None
    while page := broker.dead(limit=3, after=after):
        pages.append([letter.id for letter in page])
        after = page[-1].id
    newest = dead[::-1]
    assert pages == [newest[:3], newest[3:6], newest[6:]]


def test_the_list_is_of_one_topic_or_of_all(broker: Broker, hand: Hand) -> None:
    a, b = buried(broker, hand, 2, "a"), buried(broker, hand, 2, "b")
    assert [letter.id for letter in broker.dead("a")] == a[::-1]
    assert [letter.id for letter in broker.dead()] == [*b[::-1], *a[::-1]]
    assert broker.dead("none") == []


def test_an_empty_list_is_empty(broker: Broker) -> None:
    assert broker.dead() == []


def test_replay_lets_it_run_again_whole_with_counts_at_zero(broker: Broker, hand: Hand) -> None:
    sent = a_message(
        key="k",
        priority=7,
        options=Options(attempts=2),
        chain=(a_message(topic="next"),),
        group="g",
    )
    broker.publish([sent])
    hand.fail(hand.one())
    hand.bury(hand.one())
    assert broker.replay([sent.id, "nobody"]) == [sent.id]
    assert broker.dead_letter(sent.id) is None
    assert broker.states([sent.id])[0].state is State.WAITING
    claim = hand.one()
    assert claim.message() == sent
    assert (claim.attempt, claim.failures, claim.losses, claim.interruptions) == (1, 0, 0, 0)
    hand.ack(claim, result=b"1")
    assert broker.states([sent.id])[0].state is State.SUCCEEDED


def test_replaying_twice_is_replaying_once(broker: Broker, hand: Hand) -> None:
    (dead,) = buried(broker, hand, 1)
    assert broker.replay([dead, dead]) == [dead]
    assert broker.replay([dead]) == []
    assert hand.run_all() == [dead]


def test_a_replayed_message_may_die_again(broker: Broker, hand: Hand) -> None:
    (dead,) = buried(broker, hand, 1)
    broker.replay([dead])
    hand.bury(hand.one(), reason=Reason.REJECTED)
    letter = broker.dead_letter(dead)
    assert letter is not None
    assert (letter.reason, letter.attempt) == (Reason.REJECTED, 1)


def test_replay_respects_key_limits(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    first, second = some_messages(2, key="k")
    broker.publish([first])
    hand.bury(hand.one())
    broker.publish([second])
    held = hand.one()
    broker.replay([first.id])
    assert hand.claim(5) == []
    hand.ack(held)
    assert ids(hand.claim(5)) == [first.id]


def test_purging_forgets_those_named_a_topic_or_all(broker: Broker, hand: Hand) -> None:
    a, b, c = (buried(broker, hand, 3, topic) for topic in "abc")
    assert broker.purge_dead(ids=[a[0], "nobody"]) == 1
    assert broker.purge_dead("a", ids=[b[0]]) == 0
    assert broker.purge_dead("b") == 3
    assert broker.stats().topics["b"].dead == 0
    assert {letter.id for letter in broker.dead()} == {*a[1:], *c}
    assert broker.purge_dead() == 5
    assert broker.dead() == []


@pytest.mark.parametrize("limit", [2**31, 2**63 - 1])
def test_more_may_be_asked_for_than_there_can_be(broker: Broker, hand: Hand, limit: int) -> None:
    broker.publish([a_message(), a_message()])
    hand.bury(hand.one())
    assert len(broker.dead(None, limit)) == len(broker.dead("default", limit)) == 1
    assert len(broker.peek("default", State.WAITING, limit)) == 1


def test_an_empty_name_is_no_word_for_all_topics(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message()])
    hand.bury(hand.one())
    assert broker.dead("") == []
    assert broker.purge_dead("") == broker.purge_dead("", ids=["nobody"]) == 0
    assert len(broker.dead()) == 1


def test_the_number_is_bounded_and_the_oldest_go(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(dead_max=3)])
    dead = buried(broker, hand, 5)
    assert [letter.id for letter in broker.dead()] == dead[:1:-1]
    assert broker.stats().topics["default"].dead == 3


def test_what_goes_by_its_bounds_is_counted(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(dead_max=3), a_topic("short", dead_retention=0.3)])
    broker.publish([*some_messages(5), *some_messages(2, topic="short")])
    hand.bury(*hand.claim(7))

    def dropped(topic: str) -> int | None:
        pass_time(0.1)
        return broker.stats().topics[topic].dropped

    assert dropped("default") == 2
    assert broker.purge_dead("default") == 3
    eventually(lambda: dropped("short") == 2, timeout=4)
    assert (dropped("default"), broker.stats().topics["short"].failed) == (2, 2)


def test_bounds_that_are_lowered_hold_at_once(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    for topic in ("many", "old"):
        for _ in range(3):
            buried(broker, hand, 200, topic)
    pass_time(0.1)
    broker.configure([a_topic("many", dead_max=10), a_topic("old", dead_retention=0.001)])
    topics = broker.stats().topics
    assert (topics["many"].dead, topics["old"].dead) == (10, 0)


def test_a_bound_of_zero_is_no_bound(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(dead_max=0)])
    buried(broker, hand, 50)
    assert broker.stats().topics["default"].dead == 50


def test_old_dead_letters_are_forgotten(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.configure([a_topic("short", dead_retention=0.5), a_topic("long")])
    buried(broker, hand, 2, "short")
    long = buried(broker, hand, 1, "long")
    pass_time(0.6)

    def only_the_long() -> bool:
        pass_time(0.1)
        hand.claim(0)
        return [letter.id for letter in broker.dead()] == long

    eventually(only_the_long, timeout=5)
    assert broker.stats().topics["short"].dead == 0


def test_drop_keeps_nothing_but_the_end(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(dead=DeadPolicy.DROP)])
    (gone,) = buried(broker, hand, 1)
    assert broker.dead_letter(gone) is None
    known = broker.states([gone])[0]
    assert (known.state, known.reason) == (State.FAILED, Reason.FAILED)
    topic = broker.stats().topics["default"]
    assert (topic.dead, topic.failed) == (0, 1)


def test_forward_publishes_it_to_the_dead_topic_saying_why(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(dead=DeadPolicy.FORWARD, dead_topic="graves")])
    sent = a_message(headers={"own": "kept"}, body=b"[[1],{}]")
    broker.publish([sent])
    hand.bury(hand.one(), reason=Reason.REJECTED)
    assert broker.dead_letter(sent.id) is None
    assert broker.states([sent.id])[0].state is State.FAILED
    copy = hand.one("graves").message()
    assert (copy.task, copy.body) == (sent.task, sent.body)
    assert copy.id != sent.id
    assert copy.headers["own"] == "kept"
    assert copy.headers["millgate-dead-id"] == sent.id
    assert copy.headers["millgate-dead-topic"] == "default"
    assert copy.headers["millgate-dead-reason"] == Reason.REJECTED
    assert "ValueError" in copy.headers["millgate-dead-error"]


def test_forward_carries_over_an_error_that_no_header_can_hold(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(dead=DeadPolicy.FORWARD, dead_topic="graves")])
    broker.publish([sent := a_message()])
    failure = Failure("app.Error", "half a letter: \ud83d")
    assert broker.settle([Bury(hand.one().ref, Reason.FAILED, failure)]) == ()
    copy = hand.one("graves").message()
    assert copy.headers["millgate-dead-id"] == sent.id
    assert copy.headers["millgate-dead-error"] == r"app.Error: half a letter: \ud83d"


def test_a_full_queue_does_not_lose_what_is_forwarded(broker: Broker, hand: Hand) -> None:
    broker.configure(
        [a_topic(dead=DeadPolicy.FORWARD, dead_topic="graves")], QueuePolicy(max_waiting=1)
    )
    broker.publish([a_message()])
    claim = hand.one()
    broker.publish([a_message(topic="other")])
    hand.bury(claim)
    assert len(hand.claim(5, "graves")) == 1
