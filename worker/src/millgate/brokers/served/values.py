"""The contract's values as plain lists and back, each spelled out: explicit, fast, and free of code. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from millgate.brokers.base import (
    Ask,
    Claimed,
    Extended,
    Fenced,
)
from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState
from millgate.message import Claim, ClaimRef, Group, Message, with_record
from millgate.outcome import Failure, Reason
from millgate.queues import Subscription
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement

Plain = list[Any]

_REF: Final = attrgetter("id", "topic", "token")
#: What a broker decides by.
HEAD: Final = (
    "id", "topic", "priority", "key", "delay", "at", "expires_in", "expires_at",
    "unique", "unique_for", "result_ttl", "group",
)  # fmt: skip
_HEAD: Final = attrgetter(*HEAD)
_CLAIM: Final = attrgetter(
    "id", "topic", "token", "record", "attempt", "failures", "losses", "interruptions",
    "lease", "age", "priority", "key", "result_ttl", "group",
)  # fmt: skip
_FAILURE: Final = attrgetter("error", "message", "traceback")
_INFO: Final = attrgetter("slots", "host", "pid", "version", "topics")
_BEAT: Final = attrgetter("busy", "buffered", "revision", "rss", "oldest", "draining", "detail")

# --- messages ------------------------------------------------------------------------------------


class Sealed(Message):
    """A message on its way into the broker: its record was made by the client and stays as it is.

    The task, body and options are in the record only; the broker has no need of them. It lies in the body's place, so
    that a message becomes a sealed one by a change of its class.
    """

    __slots__ = ()

    def record(self) -> bytes:
        """The bytes that came."""
        return self.body


def from_message(message: Message) -> Plain:
    """What brokers decide by, then the record, and whether it holds further steps."""
    return [*_HEAD(message), message.record(), bool(message.chain)]


def to_message(plain: Plain) -> Message:
    """The message; one with further steps is decoded, since the broker looks at their ids."""
    (id_, topic, priority, key, delay, at, expires_in, expires_at) = plain[:8]
    unique, unique_for, result_ttl, group, record, steps = plain[8:]
    message = Message(
        id_, topic, "", record, priority, key, delay, at, expires_in, expires_at,
        unique, unique_for, result_ttl, group,
    )  # fmt: skip
    if steps:
        return whole(message, record)
    object.__setattr__(message, "__class__", Sealed)
    return message


def whole(message: Message, record: bytes) -> Message:
    """A message with the half that is in its record."""
    fields = {name: getattr(message, name) for name in HEAD}
    return with_record(Message(task="", body=b"", **fields), record)


def from_messages(messages: Sequence[Message]) -> Plain | None:
    """None for no messages, which is the usual case of an Ack."""
    return [from_message(message) for message in messages] or None


def to_messages(plain: Plain | None) -> tuple[Message, ...]:
    """What `from_messages` wrote."""
    return tuple(map(to_message, plain)) if plain else ()


def from_group(group: Group | None) -> Plain | None:
    """A group, its callback whole."""
    if group is None:
        return None
    callback = group.callback
    # It changes, so the broker must have it whole.
    plain = [*_HEAD(callback), callback.record(), True]
    return [group.id, list(group.members), plain, group.require_all]


def to_group(plain: Plain | None) -> Group | None:
    """What `from_group` wrote."""
    if plain is None:
        return None
    id_, members, callback, require_all = plain
    return Group(id_, tuple(members), to_message(callback), require_all)


# --- claims and settlements ----------------------------------------------------------------------


def from_ref(ref: ClaimRef) -> Plain:
    """Id, topic, token."""
    return [ref.id, ref.topic, ref.token]


def from_claimed(claimed: Claimed) -> Plain:
    """The answer to a claim."""
    return [
        [_CLAIM(claim) for claim in claimed.claims],
        claimed.stale,
        claimed.state,
        claimed.revision,
        claimed.next_due,
    ]


def to_claimed(plain: Plain) -> Claimed:
    """What `from_claimed` wrote."""
    claims, stale, state, revision, next_due = plain
    return Claimed(
        tuple(Claim(*claim) for claim in claims),
        tuple(stale),
        WorkerState(state),
        revision,
        next_due,
    )


def from_failure(failure: Failure | None) -> Plain | None:
    """Three texts."""
    return None if failure is None else list(_FAILURE(failure))


def to_failure(plain: Plain | None) -> Failure | None:
    """What `from_failure` wrote."""
    return None if plain is None else Failure(*plain)


def from_settlement(settlement: Settlement) -> Plain:
    """A letter for the kind, the claim's three texts, then what the kind has."""
    match settlement:
        case Ack(claim, result, result_ttl, publish):
            return ["a", *_REF(claim), result, result_ttl, from_messages(publish)]
        case Later(claim, delay, charge, failure):
            return ["l", *_REF(claim), delay, charge, from_failure(failure)]
        case Bury(claim, reason, failure):
            return ["b", *_REF(claim), reason, from_failure(failure)]
        case Drop(claim):
            return ["d", *_REF(claim)]


def to_settlement(plain: Plain) -> Settlement:
    """What `from_settlement` wrote."""
    kind, ref = plain[0], ClaimRef(plain[1], plain[2], plain[3])
    if kind == "a":
        return Ack(ref, plain[4], plain[5], to_messages(plain[6]))
    if kind == "l":
        return Later(ref, plain[4], Charge(plain[5]), to_failure(plain[6]))
    if kind == "b":
        return Bury(ref, Reason(plain[4]), to_failure(plain[5]))
    if kind == "d":
        return Drop(ref)
    raise ValueError(f"no settlement is called {kind!r}")


def from_subscription(subscription: Subscription) -> Plain:
    """Include, exclude, ordered."""
    return [list(subscription.include), list(subscription.exclude), subscription.ordered]


def to_subscription(plain: Plain) -> Subscription:
    """What `from_subscription` wrote."""
    include, exclude, ordered = plain
    if not all(isinstance(name, str) for name in (*include, *exclude)):
        raise TypeError("a subscription names topics by texts")
    return Subscription(tuple(include), tuple(exclude), bool(ordered))


def from_ask(ask: Ask) -> Plain:
    """The subscription and the number."""
    return [from_subscription(ask.subscription), ask.n]


def to_ask(plain: Plain) -> Ask:
    """What `from_ask` wrote."""
    subscription, n = plain
    return Ask(to_subscription(subscription), n)


# --- the fleet -----------------------------------------------------------------------------------


def from_worker(worker: WorkerRef) -> Plain:
    """Name and incarnation."""
    return [worker.name, worker.incarnation]


def to_worker(plain: Plain) -> WorkerRef:
    """What `from_worker` wrote."""
    name, incarnation = plain
    return WorkerRef(name, incarnation)


def from_info(info: WorkerInfo) -> Plain:
    """What a worker says of itself."""
    return list(_INFO(info))


def from_beat(beat: Beat) -> Plain:
    """What a worker says with every renewal."""
    plain = list(_BEAT(beat))
    plain[-1] = dict(beat.detail)
    return plain


def from_extended(extended: Extended) -> Plain:
    """The answer to a renewal."""
    return [extended.lost, extended.cancelled, extended.state, extended.revision]


def to_extended(plain: Plain) -> Extended:
    """What `from_extended` wrote."""
    lost, cancelled, state, revision = plain
    return Extended(tuple(lost), tuple(cancelled), WorkerState(state), revision)


def from_fenced(fenced: Fenced) -> Plain:
    """The answer to a fence."""
    return [fenced.known, fenced.leased]
