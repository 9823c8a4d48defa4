"""publish: all or nothing, in order, harmless to repeat; what is refused is refused before anything is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import MAX_BATCH, Broker, State
from millgate.errors import (
    InvalidInput,
    InvalidMessage,
    PayloadTooLarge,
    QueueFull,
    TopicUndeclared,
)
from millgate.message import Group, Message, Options, Receipt
from millgate.queues import QueuePolicy, Undeclared
from millgate.settlement import Ack, Later
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import Hand, ids


def waiting(broker: Broker, topic: str = "default") -> int:
    known = broker.stats().topics.get(topic)
    return known.waiting or 0 if known is not None else 0


def test_each_message_gets_a_receipt_with_its_id_in_order(broker: Broker) -> None:
    messages = some_messages(3)
    assert broker.publish(messages) == [Receipt(message.id) for message in messages]


def test_a_batch_may_go_to_several_topics(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message(topic="a"), a_message(topic="b"), a_message(topic="a")])
    assert (waiting(broker, "a"), waiting(broker, "b")) == (2, 1)


def test_an_empty_batch_is_answered_with_nothing(broker: Broker) -> None:
    assert broker.publish([]) == []


def test_the_order_within_a_topic_is_that_of_publication(broker: Broker, hand: Hand) -> None:
    first, second = some_messages(5), some_messages(5)
    broker.publish(first)
    broker.publish(second)
    assert hand.run_all(batch=3) == ids([*first, *second])


def test_every_field_of_a_message_arrives(broker: Broker, hand: Hand) -> None:
    step = a_message(topic="next", feed=True, key="k2", delay=3.0, options=Options(attempts=2))
    sent = a_message(
        body=b"\x00\xff",
        priority=7,
        key="customer é",
        result_ttl=12.5,
        options=Options(1.0, 2.0, 3, {"type": "Fixed", "initial": 1.0}),
        headers={"traceparent": "00-1", "ü": "ö"},
        gather=("x", "y"),
        feed=True,
        chain=(step,),
    )
    broker.publish([sent])
    claim = hand.one()
    assert claim.message() == sent
    assert (claim.id, claim.topic, claim.priority, claim.key) == (
        sent.id,
        "default",
        7,
        "customer é",
    )
    assert (claim.attempt, claim.failures, claim.losses, claim.interruptions) == (1, 0, 0, 0)


def test_a_payload_at_its_topics_limit_is_taken_and_one_byte_more_is_refused(
    broker: Broker,
) -> None:
    fits = a_message(body=b"x" * 2000)
    size = len(fits.record())
    broker.configure([a_topic(payload_max=size)])
    broker.publish([fits])
    with pytest.raises(PayloadTooLarge, match=str(size)) as refused:
        broker.publish([a_message(body=b"x" * 2001)])
    assert str(refused.value) == str(refused.value).strip()  # with no gap where a name is unknown
    assert waiting(broker) == 1


def test_a_batch_with_one_oversize_message_is_refused_whole(broker: Broker) -> None:
    broker.configure([a_topic(payload_max=1000)])
    good = some_messages(2)
    with pytest.raises(PayloadTooLarge):
        broker.publish([good[0], a_message(body=b"x" * 1001), good[1]])
    assert waiting(broker) == 0
    assert [known.state for known in broker.states(ids(good))] == [State.UNKNOWN] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "has space"},
        {"id": ""},
        {"topic": "a/b"},
        {"topic": "-a"},
        {"priority": 10},
        {"priority": -1},
        {"key": ""},
        {"key": "k" * 257},
        {"key": "a\x00b"},
        {"unique": "a\ud800b"},
        {"delay": 1.0, "at": 2.0},
        {"delay": float("nan")},
        {"expires_in": float("inf")},
    ],
    ids=str,
)
def test_a_message_that_breaks_a_rule_is_refused_whole(
    broker: Broker, fields: dict[str, object]
) -> None:
    with pytest.raises(InvalidMessage):
        broker.publish([a_message(), a_message(**fields)])
    assert waiting(broker) == 0


def test_a_chain_whose_later_step_breaks_a_rule_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidMessage):
        broker.publish([a_message(chain=(a_message(), a_message(topic="no good")))])
    assert waiting(broker) == 0


def test_more_than_a_batch_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidInput, match=str(MAX_BATCH)):
        broker.publish(some_messages(MAX_BATCH + 1))
    broker.publish(some_messages(MAX_BATCH))
    assert waiting(broker) == MAX_BATCH


def test_a_full_queue_refuses_the_whole_call_and_takes_it_when_there_is_room(
    broker: Broker, hand: Hand
) -> None:
    broker.configure([], QueuePolicy(max_waiting=5))
    broker.publish(some_messages(4))
    two = some_messages(2)
    with pytest.raises(QueueFull, match="5"):
        broker.publish(two)
    assert waiting(broker) == 4
    claim = hand.one()
    broker.publish(two)
    assert waiting(broker) == 5
    hand.ack(claim)


def test_delayed_messages_count_towards_a_full_queue(broker: Broker) -> None:
    broker.configure([], QueuePolicy(max_waiting=2))
    broker.publish([a_message(delay=60), a_message(topic="other")])
    with pytest.raises(QueueFull):
        broker.publish([a_message()])


@pytest.mark.parametrize(
    "how", ["failed", "delayed", "requeued", "unregistered", "lost", "replayed", "follows"]
)
def test_what_comes_back_is_never_refused_and_counts_towards_a_full_queue(
    broker: Broker, hand: Hand, pass_time: Callable[[float], None], how: str
) -> None:
    broker.configure([a_topic(lease=1.0)], QueuePolicy(max_waiting=40))
    broker.publish(some_messages(30))
    claims = hand.claim(10)
    if how == "replayed":
        hand.bury(*claims)
    broker.publish(some_messages(16))  # 36, and room for 4
    if how == "failed":
        broker.settle([Later(claim.ref) for claim in claims])
    elif how == "delayed":
        broker.settle([Later(claim.ref, 60.0) for claim in claims])
    elif how == "requeued":
        broker.requeue(ids(claims))
    elif how == "unregistered":
        broker.unregister(hand.worker)
    elif how == "replayed":
        broker.replay(ids(claims))
    elif how == "follows":
        broker.settle([Ack(claim.ref, publish=[a_message()]) for claim in claims])
    else:
        pass_time(1.1)
        eventually(lambda: waiting(broker) == 46, timeout=4)
    with pytest.raises(QueueFull, match="46 of at most 40"):
        broker.publish([a_message()])
    assert len(Hand(broker).claim(7)) == 7
    broker.publish([a_message()])
    with pytest.raises(QueueFull):
        broker.publish([a_message()])


def test_a_repeat_is_taken_by_a_full_queue(broker: Broker) -> None:
    broker.configure([], QueuePolicy(max_waiting=2))
    messages = some_messages(2)
    broker.publish(messages)
    assert [receipt.duplicate for receipt in broker.publish(messages)] == [True, True]


def test_undeclared_topics_are_refused_where_the_queue_says_so(broker: Broker) -> None:
    broker.configure([a_topic("known")], QueuePolicy(undeclared=Undeclared.REJECT))
    broker.publish([a_message(topic="known")])
    with pytest.raises(TopicUndeclared, match="strange"):
        broker.publish([a_message(topic="known"), a_message(topic="strange")])
    with pytest.raises(TopicUndeclared, match="strange"):
        broker.publish([a_message(topic="known", chain=(a_message(topic="strange"),))])
    assert waiting(broker, "known") == 1


# --- repeats -------------------------------------------------------------------------------------


def again(broker: Broker, message: Message) -> None:
    assert broker.publish([message]) == [Receipt(message.id, duplicate=True)]


def test_a_repeat_stores_nothing_and_names_itself(broker: Broker, hand: Hand) -> None:
    messages = some_messages(3)
    broker.publish(messages)
    assert broker.publish(messages) == [Receipt(message.id, duplicate=True) for message in messages]
    assert hand.run_all() == ids(messages)


def test_an_id_twice_in_one_batch_is_stored_once(broker: Broker, hand: Hand) -> None:
    message = a_message()
    assert [receipt.duplicate for receipt in broker.publish([message, message])] == [False, True]
    assert hand.run_all() == [message.id]


def test_a_repeat_is_known_in_every_state(broker: Broker, hand: Hand) -> None:
    late, message = a_message(delay=60), a_message()
    broker.publish([late, message])
    again(broker, late)  # delayed
    again(broker, message)  # waiting
    claim = hand.one()
    again(broker, message)  # running
    hand.fail(claim, delay=60)
    again(broker, message)  # waits for its retry


def test_a_repeat_is_known_after_the_message_was_settled(broker: Broker, hand: Hand) -> None:
    plain, kept, dead, gone = messages = some_messages(4)
    broker.publish(messages)
    claims = hand.claim(4)
    hand.ack(claims[0])
    hand.ack(claims[1], result=b"1")
    hand.bury(claims[2])
    hand.drop(claims[3])
    for message in (plain, kept, dead, gone):
        again(broker, message)
    assert waiting(broker) == 0


def test_a_repeat_of_a_partly_new_batch_stores_the_new_ones(broker: Broker, hand: Hand) -> None:
    old, new = some_messages(2), some_messages(1)
    broker.publish(old)
    receipts = broker.publish([old[0], new[0], old[1]])
    assert [receipt.duplicate for receipt in receipts] == [True, False, True]
    assert hand.run_all() == ids([*old, *new])


def test_a_call_that_was_refused_leaves_its_client_as_it_was(broker: Broker) -> None:
    broker.publish([a_message()])
    for _ in range(3):
        broker.stats()
    member, large = a_message(), a_message(body=b"x" * 300_000)
    with pytest.raises(PayloadTooLarge):
        broker.publish([member], Group("g", (member.id,), large))
    for _ in range(3):
        broker.stats()
        broker.publish([a_message()])
    assert broker.stats().topics["default"].waiting == 4
