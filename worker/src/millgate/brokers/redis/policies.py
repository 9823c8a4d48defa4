"""Policies → what the scripts read: maps of only what differs from the defaults, times in ms where scripts count so."""

from __future__ import annotations

import json
from typing import Any, Final

import msgpack

from millgate.queues import (
    DeadPolicy,
    Ordering,
    QueuePolicy,
    TopicPolicy,
    Undeclared,
    policy_to_dict,
    queue_to_dict,
)

_DEFAULT: Final = TopicPolicy(name="-")
_LOSSES: Final = 5  # the scripts' default
#: Field → the scripts' word for it. Their defaults are those of TopicPolicy.
_NAMES: Final = {
    "paused": "paused",
    "priority": "prio",
    "weight": "weight",
    "boost_after": "boost",
    "limit": "limit",
    "dead_topic": "target",
    "dead_retention": "keep",
    "dead_max": "most",
    "expires_in": "expires",
    "result_ttl": "ttl",
    "payload_max": "size",
}


def text_of(policy: TopicPolicy) -> str:
    """A topic's policy as it is stored to be read back."""
    return json.dumps(policy_to_dict(policy))


def queue_text(policy: QueuePolicy) -> str:
    """The queue's policy as it is stored to be read back."""
    return json.dumps(queue_to_dict(policy))


def packed(policy: TopicPolicy, *, declared: bool) -> bytes:
    """A topic's policy as the scripts read it."""
    values: dict[str, Any] = {"v": 1}
    for name, key in _NAMES.items():
        value = getattr(policy, name)
        if value != getattr(_DEFAULT, name):
            values[key] = value
    values |= _gates(policy) | _rate(policy) | _dead(policy)
    if policy.lease != _DEFAULT.lease:
        values["lease"] = round(policy.lease * 1000)
    if policy.retry.losses != _LOSSES:
        values["losses"] = policy.retry.losses
    if declared:
        values["declared"] = True
        if policy.reserve:
            values["reserve"] = policy.reserve
    return _pack(values)


def packed_queue(policy: QueuePolicy) -> bytes:
    """The queue's policy as the scripts read it, its topics' defaults inside."""
    values: dict[str, Any] = {"defaults": packed(policy.defaults, declared=False)}
    if policy.limit is not None:
        values["limit"] = policy.limit
    if policy.max_waiting is not None:
        values["most"] = policy.max_waiting
    if policy.suspended:
        values["suspended"] = True
    if policy.undeclared is Undeclared.REJECT:
        values["reject"] = True
    return _pack(values)


def _gates(policy: TopicPolicy) -> dict[str, Any]:
    if policy.ordering is Ordering.FIFO:
        return {"order": "F"}
    if policy.ordering is Ordering.KEY:
        return {"order": "K"}
    return {} if policy.key_limit is None else {"keys": policy.key_limit}


def _rate(policy: TopicPolicy) -> dict[str, Any]:
    rate = policy.rate
    if rate is None:
        return {}
    return {"rcount": rate.count, "rper": rate.per * 1000, "rcap": rate.capacity}


def _dead(policy: TopicPolicy) -> dict[str, Any]:
    if policy.dead is DeadPolicy.KEEP:
        return {}
    return {"dead": "F" if policy.dead is DeadPolicy.FORWARD else "D"}


def _pack(values: dict[str, Any]) -> bytes:
    # the server's msgpack knows no bytes, texts carry them
    return bytes(msgpack.packb(values, use_bin_type=False))
