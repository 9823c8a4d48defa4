"""What is too much for one call is done in several, and nobody can tell: no call holds the server for long."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker
from millgate.errors import PayloadTooLarge
from millgate.message import Message
from millgate.outcome import Reason
from millgate.queues import Ordering, Subscription, TopicPolicy
from millgate.settlement import Ack, Bury, Drop, Later, Settlement
from support.builders import a_message, a_topic, some_messages
from support.redis import Admin
from support.servers import Redis
from support.working import A_FAILURE, Hand, ids

Open = Callable[..., RedisBroker]
GATED = {
    "limit of a key": a_topic(key_limit=1),
    "order of a key": a_topic(ordering=Ordering.KEY),
    "strict order": a_topic(ordering=Ordering.FIFO),
}


def keyed(count: int, **fields: Any) -> list[Message]:
    return [a_message(key=f"k{n}", **fields) for n in range(count)]


def left_half_way(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this client die, as it were, when its messages are stored and have not passed their gates."""
    monkeypatch.setattr(broker, "_let_through", lambda count: None)


@pytest.mark.parametrize("policy", GATED.values(), ids=list(GATED))
def test_a_large_batch_can_be_claimed_when_it_is_published(
    broker: RedisBroker, policy: TopicPolicy
) -> None:
    broker.configure([policy])
    batch = keyed(1000)
    broker.publish(batch)
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.enqueued) == (1000, 1000)
    assert topic.claimable == (1 if policy.ordering is Ordering.FIFO else 1000)
    hand = Hand(broker)
    assert hand.one().id == batch[0].id


def test_a_large_batch_whose_publisher_dies_is_let_through_by_others(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_half_way(broker, monkeypatch)
    broker.configure([a_topic(ordering=Ordering.KEY)])
    batch = [a_message(key=f"k{n % 500}", expires_in=3600) for n in range(1000)]
    broker.publish(batch)
    assert broker.stats().topics["default"].waiting == 1000
    hand = Hand(broker)
    started: list[str] = []
    for _ in range(40):
        claims = hand.claim(300)
        started += ids(claims)
        hand.ack(*claims)
    assert sorted(started) == sorted(ids(batch))
    for key in range(500):
        assert started.index(batch[key].id) < started.index(batch[key + 500].id)


def calls(admin: Admin, command: str) -> int:
    """How often scripts have called a command of the server's."""
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", admin("INFO", "commandstats").decode())
    return int(found[1]) if found else 0


@pytest.mark.parametrize("delay", [None, 3600.0], ids=["waiting", "delayed"])
def test_a_purge_passes_by_what_is_published_meanwhile_once(
    server: Redis,
    admin: Admin,
    queue: str,
    open_one: Open,
    monkeypatch: pytest.MonkeyPatch,
    delay: float | None,
) -> None:
    broker, other = open_one(queue, server.url), open_one(queue, server.url)
    for _ in range(4):
        broker.publish(some_messages(1000, delay=delay))
    newer = [m for n in range(4) for m in some_messages(1000, delay=delay and delay + n)]
    run = broker.run

    def meanwhile(verb: str, *arguments: Any) -> Any:
        answer = run(verb, *arguments)
        for start in range(0, len(newer), 1000):
            other.publish(newer[start : start + 1000])
            admin("CONFIG", "RESETSTAT")
        newer.clear()
        return answer

    count, before = len(newer), ids(newer)
    monkeypatch.setattr(broker, "run", meanwhile)
    assert broker.purge("default") == 4000
    assert calls(admin, "hmget") < 400, "no page of messages is read twice"
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.delayed) == ((count, 0) if delay is None else (0, count))
    assert other.states(before[:1])[0].state in (State.WAITING, State.DELAYED)


def test_dead_letters_that_are_too_old_are_asked_for_together(
    server: Redis, admin: Admin, queue: str, open_one: Open
) -> None:
    broker = open_one(queue, server.url)
    hand = Hand(broker)
    for _ in range(3):
        broker.publish(some_messages(200))
        hand.bury(*hand.claim(200))
    admin("CONFIG", "RESETSTAT")
    broker.configure([a_topic(dead_retention=0.001)])
    assert broker.stats().topics["default"].dead == 0
    assert calls(admin, "zrem") < 150
    assert calls(admin, "hget") < 150


def test_what_waits_before_its_gate_can_be_looked_at_cancelled_and_purged(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_half_way(broker, monkeypatch)
    broker.configure([a_topic(key_limit=1)])
    batch = keyed(1000)
    broker.publish(batch)
    last = batch[-1].id
    assert broker.states([last])[0].state is State.WAITING
    broker.cancel([last])
    assert broker.states([last])[0].state is State.CANCELLED
    assert broker.stats().topics["default"].waiting == 999
    assert broker.publish([batch[0]])[0].duplicate
    assert broker.purge("default") == 999
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.failed, topic.enqueued) == (0, 1000, 1000)


def test_a_large_batch_does_not_open_a_topic_before_what_was_there(
    broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order holds over a batch that waits before the gate: what comes after it does not overtake."""
    left_half_way(broker, monkeypatch)
    broker.configure([a_topic(ordering=Ordering.FIFO)])
    first, batch, last = a_message(), keyed(500), a_message()
    for messages in ([first], batch, [last]):
        broker.publish(messages)
    hand, started = Hand(broker), []
    for _ in range(600):
        claims = hand.claim(5)
        assert len(claims) <= 1
        started += ids(claims)
        hand.ack(*claims)
    assert started == ids([first, *batch, last])


def test_a_claim_gets_all_that_it_asks_for_in_as_many_calls_as_it_takes(
    broker: RedisBroker,
) -> None:
    broker.configure([a_topic(key_limit=1)])
    broker.publish(keyed(1000))
    broker.publish(keyed(1000, topic="plain"))
    hand = Hand(broker)
    claims = hand.claim(1000, "default")
    assert len(claims) == len(set(ids(claims))) == 1000
    answer = hand.ask(1000, [Ack(claim.ref) for claim in claims], Subscription(("plain",)))
    assert len(answer.claims) == 1000
    assert answer.stale == ()
    topics = broker.stats().topics
    assert (topics["default"].completed, topics["plain"].leased) == (1000, 1000)


def test_a_claim_passes_a_thousand_that_have_expired(broker: RedisBroker, open_one: Open) -> None:
    broker.publish([a_message(expires_in=0.001) for _ in range(1000)])
    alive = a_message()
    broker.publish([alive])
    hand = Hand(broker)
    started: list[str] = []
    for _ in range(30):
        started += ids(hand.claim(300))
    assert started == [alive.id]
    assert broker.stats().topics["default"].failed == 1000


def test_settlements_of_every_kind_keep_their_counts_in_a_large_batch(broker: RedisBroker) -> None:
    broker.configure([a_topic(key_limit=2)])
    broker.publish([a_message(key=f"k{n % 400}") for n in range(1000)])
    hand = Hand(broker)
    claims = hand.claim(1000)
    assert len(claims) == 800
    kinds: list[Callable[[Any], Settlement]] = [
        lambda claim: Ack(claim.ref, b"r"),
        lambda claim: Ack(claim.ref),
        lambda claim: Later(claim.ref, 0.0, failure=A_FAILURE),
        lambda claim: Bury(claim.ref, Reason.FAILED, A_FAILURE),
        lambda claim: Drop(claim.ref),
    ]
    settlements = [kinds[n % 5](claim) for n, claim in enumerate(claims)]
    assert broker.settle(settlements) == ()
    assert broker.settle(settlements) == tuple(ids(claims))
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.leased, topic.dead) == (360, 0, 160)
    assert (topic.completed, topic.failed) == (320, 320)
    left = hand.claim(1000)
    assert len(left) == 320  # 40 keys have three that wait, and two slots
    hand.ack(*left)
    last = hand.claim(1000)
    assert len(last) == 40
    assert sum(claim.failures for claim in [*left, *last]) == 160
    hand.ack(*last)
    assert broker.stats().topics["default"].waiting == 0


def test_an_id_that_is_settled_twice_in_one_batch_is_stale_the_second_time(
    broker: RedisBroker,
) -> None:
    broker.publish([a_message(), a_message(key="k")])
    hand = Hand(broker)
    plain, gated = hand.claim(2)
    assert broker.settle([Later(plain.ref, 60.0), Ack(plain.ref), Drop(plain.ref)]) == (
        plain.id,
        plain.id,
    )
    assert broker.settle([Ack(gated.ref, b"r"), Bury(gated.ref, Reason.FAILED)]) == (gated.id,)
    topic = broker.stats().topics["default"]
    assert (topic.delayed, topic.completed, topic.failed) == (1, 1, 0)


def test_a_follower_that_is_too_large_refuses_a_batch_of_many_calls_whole(
    broker: RedisBroker,
) -> None:
    broker.configure([a_topic("small", payload_max=200)])
    broker.publish(keyed(500))
    hand = Hand(broker)
    claims = hand.claim(500)
    follow = [a_message(topic="small", body=b"[[],{}]") for _ in claims]
    follow[-1] = a_message(topic="small", body=b"x" * 500)
    settlements = [Ack(c.ref, publish=[m]) for c, m in zip(claims, follow, strict=True)]
    with pytest.raises(PayloadTooLarge, match=follow[-1].id):
        broker.settle(settlements)
    assert broker.stats().topics["default"].leased == 500
    assert broker.settle(settlements[:-1]) == ()
    topics = broker.stats().topics
    assert (topics["default"].completed, topics["small"].waiting) == (499, 499)
