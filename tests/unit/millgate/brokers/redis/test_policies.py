"""Policies → what the scripts read: nothing for what is as by default, and every field that differs."""

from __future__ import annotations

import msgpack

from millgate.brokers.redis import policies
from millgate.limits import Rate
from millgate.queues import DeadPolicy, Ordering, QueuePolicy, Undeclared
from millgate.retry import RetryPolicy
from support.builders import a_topic


def read(data: bytes) -> dict[str, object]:
    return dict(msgpack.unpackb(data))


def test_the_defaults_are_not_written() -> None:
    assert read(policies.packed(a_topic(), declared=False)) == {"v": 1}


def test_what_differs_is_written_in_the_scripts_units() -> None:
    topic = a_topic(
        limit=3,
        reserve=2,
        key_limit=1,
        rate=Rate(10, 2.0, 20),
        lease=1.5,
        retry=RetryPolicy(losses=0),
        dead=DeadPolicy.FORWARD,
        dead_topic="graves",
        result_ttl=0.0,
        paused=True,
    )
    assert read(policies.packed(topic, declared=True)) == {
        "v": 1,
        "limit": 3,
        "reserve": 2,
        "keys": 1,
        "rcount": 10,
        "rper": 2000.0,
        "rcap": 20,
        "lease": 1500,
        "losses": 0,
        "dead": "F",
        "target": "graves",
        "ttl": 0.0,
        "paused": True,
        "declared": True,
    }


def test_an_order_is_a_gate_of_one() -> None:
    assert read(policies.packed(a_topic(ordering=Ordering.FIFO), declared=False))["order"] == "F"
    by_key = read(policies.packed(a_topic(ordering=Ordering.KEY, key_limit=5), declared=False))
    assert by_key == {"v": 1, "order": "K"}


def test_a_reserve_is_a_declared_topics_only() -> None:
    assert "reserve" not in read(policies.packed(a_topic(reserve=2), declared=False))


def test_the_queues_policy_carries_the_defaults_of_its_topics() -> None:
    queue = QueuePolicy(5, 9, True, Undeclared.REJECT, a_topic("defaults", weight=3))
    packed = msgpack.unpackb(policies.packed_queue(queue), raw=True)
    assert read(packed.pop(b"defaults")) == {"v": 1, "weight": 3}
    assert packed == {b"limit": 5, b"most": 9, b"suspended": True, b"reject": True}
