"""A batch that would hold the server for long takes several calls and is one step all the same, whoever dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker, drafts
from millgate.brokers.redis.publishing import Batch
from millgate.errors import (
    BrokerError,
    InvalidInput,
    PayloadTooLarge,
    QueueFull,
    TopicUndeclared,
)
from millgate.message import Group, Message
from millgate.queues import QueuePolicy, TopicPolicy, Undeclared
from support import servers
from support.builders import a_message, a_topic
from support.redis import Admin
from support.working import Hand, ids

Open = Callable[..., RedisBroker]
COUNT = 1000


def heavy(count: int = COUNT, **fields: Any) -> list[Message]:
    """Messages that set all that costs the server something."""
    return [
        a_message(
            **{
                "key": f"k{number % 300}",
                "unique": f"u{number}",
                "unique_for": 60.0,
                "expires_in": 3600.0,
                "result_ttl": 60.0,
                "priority": number % 10,
                **fields,
            }
        )
        for number in range(count)
    ]


def dies_half_way(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let this client die, as it were, after so many steps of a batch."""
    carry_on = broker.carry_on
    monkeypatch.setattr(broker, "carry_on", lambda _: carry_on(steps))
    monkeypatch.setattr(broker, "_let_through", lambda _: None)


def batches(broker: RedisBroker) -> list[bytes]:
    """The keys of batches that are under way."""
    admin, prefix = Admin(servers.redis().port), broker.target.prefix
    found: list[bytes] = admin("KEYS", f"{prefix}part:*")
    return found + ([b"batch"] if admin("EXISTS", f"{prefix}batch") else [])


@pytest.fixture
def other(queue: str, broker: RedisBroker, open_one: Open) -> RedisBroker:
    """Another client of the queue."""
    return open_one(queue)


def is_large(messages: list[Message]) -> bool:
    return Batch(messages, drafts.parts(messages)).large


def test_a_heavy_batch_takes_several_calls_and_a_light_one_takes_one() -> None:
    assert is_large(heavy())
    assert is_large([a_message(body=b"x" * 100_000) for _ in range(100)])
    assert is_large([a_message(topic=f"t{n}") for n in range(COUNT)])
    assert not is_large([a_message(body=b"x" * 240) for n in range(COUNT)])
    assert not is_large(heavy(300))


def test_nobody_sees_half_of_a_batch(broker: RedisBroker, other: RedisBroker) -> None:
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            topics = other.stats().topics
            seen.add((topics["default"].waiting or 0) if "default" in topics else 0)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(10):
        broker.publish(heavy())
        broker.purge("default")
        broker = other
    over.set()
    thread.join(30)
    # `purge` is several steps, a batch is one
    assert all(waiting % 150 == COUNT % 150 or waiting == 0 for waiting in seen), seen


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_batch_whose_sender_dies_is_carried_on_by_whoever_comes(
    broker: RedisBroker, other: RedisBroker, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    dies_half_way(broker, monkeypatch, steps)
    batch = heavy()
    broker.publish(batch)
    assert batches(broker)
    assert other.states([batch[-1].id])[0].state is State.WAITING
    assert batches(broker) == []
    topic = other.stats().topics["default"]
    assert (topic.waiting, topic.enqueued) == (COUNT, COUNT)
    expected = [m.id for m in sorted(batch, key=lambda m: -m.priority)]
    assert Hand(other).run_all(batch=300) == expected


def test_a_batch_whose_sender_dies_while_it_lays_it_aside_is_not_there(
    broker: RedisBroker, other: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = broker.run

    def dies(verb: str, *arguments: Any, **options: Any) -> Any:
        if verb == "begin":
            raise KeyboardInterrupt
        return run(verb, *arguments, **options)

    monkeypatch.setattr(broker, "run", dies)
    batch = heavy()
    with pytest.raises(KeyboardInterrupt):
        broker.publish(batch)
    assert other.states([batch[0].id])[0].state is State.UNKNOWN
    [aside] = batches(broker)
    assert 0 < Admin(servers.redis().port)("PTTL", aside) <= 60_000
    assert [r.duplicate for r in other.publish(batch)] == [False] * COUNT


def test_a_worker_is_woken_when_a_batch_is_whole_and_renews_meanwhile(
    broker: RedisBroker, other: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.publish([a_message(topic="old")])
    hand = Hand(other)
    claim = hand.one("old")
    dies_half_way(broker, monkeypatch, 1)
    broker.publish(heavy())
    hand.beat(claim)
    assert batches(broker), "nobody who renews waits for it"
    assert len(hand.claim(10)) == 10


def test_the_first_of_a_batch_wins_over_the_later_ones_of_any_part(broker: RedisBroker) -> None:
    batch = heavy(600)
    again = [replace(batch[0], priority=9), a_message(unique="u1", unique_for=60.0)]
    known = a_message(unique="known")
    broker.publish([known])
    whole = [*batch, *again, a_message(unique="known"), *heavy(300)]
    assert is_large(whole)
    receipts = broker.publish(whole)
    assert [r.duplicate for r in receipts[:600]] == [False] * 600
    assert [(r.id, r.duplicate) for r in receipts[600:603]] == [
        (batch[0].id, True),
        (batch[1].id, True),
        (known.id, True),
    ]
    assert [r.id for r in receipts[603:]] == ids(batch[:300])
    assert broker.stats().topics["default"].waiting == 601
    assert all(r.duplicate for r in broker.publish(whole))
    assert batches(broker) == []


REFUSED: dict[str, tuple[type[Exception], TopicPolicy | None, QueuePolicy, dict[str, Any]]] = {
    "too large": (PayloadTooLarge, a_topic(payload_max=100), QueuePolicy(), {"body": b"x" * 200}),
    "undeclared": (
        TopicUndeclared,
        a_topic(),
        QueuePolicy(undeclared=Undeclared.REJECT),
        {"topic": "nobodys"},
    ),
    "undeclared, later": (
        TopicUndeclared,
        a_topic(),
        QueuePolicy(undeclared=Undeclared.REJECT),
        {"chain": (a_message(topic="nobodys"),)},
    ),
    "full": (QueueFull, a_topic(), QueuePolicy(max_waiting=COUNT - 1), {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_batch_of_which_one_is_refused_is_refused_whole(broker: RedisBroker, name: str) -> None:
    error, topic, queue, fields = REFUSED[name]
    broker.configure([] if topic is None else [topic], queue)
    batch = heavy()
    with pytest.raises(error):
        broker.publish([*batch[:-1], a_message(**fields)])
    assert broker.states(ids(batch)[:2])[0].state is State.UNKNOWN
    assert Admin(servers.redis().port)("HLEN", broker.target.prefix + "m") == 0
    assert name != "full" or batches(broker) == []
    if name == "full":
        assert [r.duplicate for r in broker.publish(batch[:-1])] == [False] * (COUNT - 1)


def test_a_group_of_many_parts_is_told_of_every_end(broker: RedisBroker) -> None:
    batch = heavy(999)
    first = batch[5]
    broker.publish([first])
    hand = Hand(broker)
    hand.ack(hand.one())
    callback = a_message(topic="callback")
    receipts = broker.publish(batch, Group("g", tuple(ids(batch)), callback))
    assert [r.duplicate for r in receipts].count(True) == 1
    assert "callback" not in broker.stats().topics
    assert len(hand.run_all("default", batch=300)) == 998
    assert hand.one("callback").id == callback.id


def test_a_group_whose_members_are_others_is_sent_anew_whole(broker: RedisBroker) -> None:
    broker.publish([holder := a_message(unique="u7")])
    batch = heavy(999)
    receipts = broker.publish(batch, Group("g", tuple(ids(batch)), a_message(topic="callback")))
    assert receipts[7].id == holder.id
    hand = Hand(broker)
    assert len(hand.run_all("default", batch=300)) == 999
    assert hand.one("callback").message().gather[7] == holder.id


def test_a_schedule_fires_a_heavy_batch_once(broker: RedisBroker, other: RedisBroker) -> None:
    batch = heavy()
    assert broker.fire("s", 5.0, batch)
    assert not other.fire("s", 5.0, heavy())
    assert not other.fire("s", 4.0, heavy())
    assert other.stats().topics["default"].waiting == COUNT


def test_policies_that_change_while_a_batch_is_laid_aside_hold_for_it(
    broker: RedisBroker, other: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = broker.run

    def meanwhile(verb: str, *arguments: Any, **options: Any) -> Any:
        if verb == "begin":
            other.configure([a_topic(payload_max=10)])
        return run(verb, *arguments, **options)

    monkeypatch.setattr(broker, "run", meanwhile)
    with pytest.raises(PayloadTooLarge):
        broker.publish(heavy())


def test_senders_of_heavy_batches_and_workers_wait_for_each_other_but_not_for_ever(
    queue: str, broker: RedisBroker, open_one: Open
) -> None:
    sent: list[str] = []

    def send() -> None:
        client = open_one(queue)
        for _ in range(4):
            sent.extend(r.id for r in client.publish(heavy(unique=None, unique_for=None)))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    hand = Hand(broker)
    started: list[str] = []
    while any(thread.is_alive() for thread in threads) or broker.stats().topics["default"].waiting:
        started += hand.run_all(batch=300)
    for thread in threads:
        thread.join()
    assert len(sent) == 16 * COUNT
    assert sorted(started) == sorted(sent)
    assert batches(broker) == []


def test_a_part_that_cannot_be_stored_holds_up_nobody(
    broker: RedisBroker, other: RedisBroker
) -> None:
    broker.publish([a_message()])
    admin = Admin(servers.redis().port)
    admin("SET", broker.target.prefix + "ex", "somebody else's")
    with pytest.raises(BrokerError, match="another kind"):
        broker.publish(heavy())
    assert batches(broker) == []
    admin("DEL", broker.target.prefix + "ex")
    assert other.stats().topics["default"].waiting
    assert not other.publish([a_message()])[0].duplicate


# configure


def policies(count: int = COUNT, **fields: Any) -> list[TopicPolicy]:
    return [a_topic(f"t{number}", **fields) for number in range(count)]


def test_many_policies_are_one_step_that_is_carried_on_by_whoever_comes(
    broker: RedisBroker, other: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.publish([a_message(topic=f"t{number}") for number in range(COUNT)])
    dies_half_way(broker, monkeypatch, 3)
    run = broker.run
    monkeypatch.setattr(
        broker, "run", lambda verb, *a, **o: 0 if verb == "regate" else run(verb, *a, **o)
    )
    before = broker.configuration().revision
    assert broker.configure(policies(paused=True)) == before + 1
    assert batches(broker)
    assert Hand(other).claim(10) == []
    assert batches(broker) == []
    assert dict(other.configuration().topics) == {p.name: p for p in policies(paused=True)}
    assert other.configure(policies(paused=True)) == before + 1
    topics = other.stats().topics.values()
    assert len([t for t in topics if t.paused and t.declared]) == COUNT


def test_many_policies_of_which_one_cannot_hold_are_refused_whole(broker: RedisBroker) -> None:
    broker.configure([], QueuePolicy(limit=999))
    before = broker.configuration()
    with pytest.raises(InvalidInput, match="reserve 1000 slots"):
        broker.configure(policies(reserve=1))
    assert broker.configuration() == before
    assert batches(broker) == []


def test_topics_by_the_hundred_obey_new_defaults_and_leave(broker: RedisBroker) -> None:
    broker.publish([a_message(topic=f"free{number}") for number in range(300)])
    broker.configure(policies(300, limit=7))
    broker.publish([a_message(topic=f"t{number}") for number in range(300)])
    defaults = a_topic("defaults", paused=True)
    broker.configure([a_topic("t0")], QueuePolicy(defaults=defaults), replace=True)
    topics = broker.stats().topics
    assert [name for name, topic in topics.items() if not topic.paused] == ["t0"]
    assert [name for name, topic in topics.items() if topic.declared] == ["t0"]
    assert batches(broker) == []
    assert _names(broker) == ["t0"]


def _names(broker: RedisBroker) -> Sequence[str]:
    return sorted(broker.configuration().topics)
