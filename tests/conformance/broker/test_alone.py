"""A message that is published alone is held to the rules of one that is published beside others."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.brokers.base import Broker, State
from millgate.errors import PayloadTooLarge, QueueFull, TopicUndeclared
from millgate.message import Message, Receipt
from millgate.queues import Ordering, QueuePolicy, Undeclared
from support.builders import a_message, a_topic
from support.working import Hand

OTHER = "beside"


@pytest.fixture(params=[False, True], ids=["alone", "beside another"])
def beside(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def publish(broker: Broker, message: Message, beside: bool) -> Receipt:
    """Publish it, alone or beside one for another topic; its own receipt."""
    if not beside:
        return broker.publish([message])[0]
    return broker.publish([a_message(topic=OTHER), message])[1]


def waiting(broker: Broker, topic: str = "default") -> int:
    known = broker.stats().topics.get(topic)
    return known.waiting or 0 if known is not None else 0


def test_a_topic_must_be_declared_where_the_queue_says_so(broker: Broker, beside: bool) -> None:
    broker.configure([a_topic("known"), a_topic(OTHER)], QueuePolicy(undeclared=Undeclared.REJECT))
    assert not publish(broker, a_message(topic="known"), beside).duplicate
    with pytest.raises(TopicUndeclared, match="strange"):
        publish(broker, a_message(topic="strange"), beside)
    assert waiting(broker, OTHER) == (1 if beside else 0)


def test_a_record_may_not_be_larger_than_its_topic_or_the_queue_says(
    broker: Broker, beside: bool
) -> None:
    broker.configure([a_topic(payload_max=600)])
    with pytest.raises(PayloadTooLarge, match="600"):
        publish(broker, large := a_message(body=b"x" * 700), beside)
    assert broker.states([large.id])[0].state is State.UNKNOWN
    with pytest.raises(PayloadTooLarge):
        publish(broker, a_message(topic="new", body=b"x" * 300_000), beside)
    assert waiting(broker, OTHER) == 0


def test_a_full_queue_takes_a_repeat_and_nothing_else(broker: Broker, beside: bool) -> None:
    broker.configure([], QueuePolicy(max_waiting=2))
    first = a_message()
    broker.publish([first, second := a_message(topic=OTHER)])
    assert broker.publish([first, second])[0] == Receipt(first.id, duplicate=True)
    assert broker.publish([first]) == [Receipt(first.id, duplicate=True)]
    with pytest.raises(QueueFull, match="2"):
        publish(broker, a_message(), beside)
    assert (waiting(broker), waiting(broker, OTHER)) == (1, 1)


def test_a_repeat_is_known_in_every_state(broker: Broker, hand: Hand, beside: bool) -> None:
    message = a_message()
    for state in ("waiting", "running", "succeeded"):
        assert publish(broker, message, beside) == Receipt(message.id, state != "waiting")
        if state == "waiting":
            claim = hand.one("default")
        elif state == "running":
            hand.ack(claim)
    broker.publish([dead := a_message(), kept := a_message()])
    one, two = hand.claim(2, "default")
    hand.bury(one)
    hand.ack(two, result=b"result")
    assert publish(broker, dead, beside) == Receipt(dead.id, duplicate=True)
    assert publish(broker, kept, beside) == Receipt(kept.id, duplicate=True)
    assert waiting(broker) == 0


def test_a_taken_text_is_answered_with_its_holder(broker: Broker, beside: bool) -> None:
    for window in (None, 60.0):
        first = a_message(unique=f"u{window}", unique_for=window)
        assert publish(broker, first, beside) == Receipt(first.id)
        again = a_message(unique=f"u{window}", unique_for=window)
        assert publish(broker, again, beside) == Receipt(first.id, duplicate=True)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"result_ttl": 0.0},
        {"key": "k"},
        {"unique": "u"},
        {"unique": "u", "unique_for": 60.0},
        {"expires_in": 60.0},
        {"expires_in": 60.0, "result_ttl": 5.0, "unique": "u", "key": "k", "priority": 9},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"expires_in": 60.0},
        {"key_limit": 1},
        {"ordering": Ordering.KEY},
        {"ordering": Ordering.FIFO},
    ],
    ids=str,
)
def test_it_waits_where_it_would_have_and_arrives_whole(
    broker: Broker, hand: Hand, beside: bool, policy: dict[str, Any], fields: dict[str, Any]
) -> None:
    broker.configure([a_topic(**policy)])
    own = [{**fields, "unique": f"u{n}"} if "unique" in fields else fields for n in range(3)]
    sent = [a_message(**each) for each in own]
    for message in sent:
        assert publish(broker, message, beside) == Receipt(message.id)
    gated = policy.get("ordering") is Ordering.FIFO or (
        "key" in fields and bool(policy.keys() & {"key_limit", "ordering"})
    )
    claims = hand.claim(3, "default")
    assert [claim.id for claim in claims] == [message.id for message in sent[: 1 if gated else 3]]
    first, message = claims[0], sent[0]
    assert first.record == message.record()
    assert (first.priority, first.key, first.result_ttl) == (
        message.priority,
        message.key,
        message.result_ttl,
    )
    stats = broker.stats().topics["default"]
    assert (stats.enqueued, stats.waiting, stats.leased) == (3, 3 - len(claims), len(claims))


def test_what_is_not_due_waits_for_its_time(broker: Broker, hand: Hand, beside: bool) -> None:
    publish(broker, a_message(delay=3600.0), beside)
    assert hand.claim(1, "default") == []
    assert broker.stats().topics["default"].delayed == 1
