"""The calls that `benchmarks.held` measures: each verb with as many rows as one call of it may have."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from millgate.brokers.base import MAX_BATCH, Ask, Broker, State
from millgate.fleet import Beat, WorkerInfo, WorkerRef
from millgate.ids import new_incarnation
from millgate.limits import Rate
from millgate.message import Claim, Group, Message
from millgate.outcome import Failure, Reason
from millgate.queues import Ordering, QueuePolicy, Subscription, TopicPolicy
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement

_STEP: Final = 300  # claims and settlements that one call carries out
_PAGE: Final = 150  # ids of an order to the queue
_WORKER: Final = WorkerRef("held", new_incarnation())
_FAILURE: Final = Failure("builtins.ValueError", "no good", "Traceback\n" * 20)
_BODY: Final = b"x" * 240  # a record of 264 bytes

Act = Callable[[], object]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Hold:
    """One row of the table. `prepare` fills the queue and answers what is measured, `wait` seconds later."""

    name: str
    rows: int
    prepare: Callable[[Broker], Act]
    wait: float = 0.0


@dataclass
class Sent:
    """What messages have in common, and what each number of them has of its own."""

    fields: dict[str, Any] = field(default_factory=dict)
    own: Callable[[int], dict[str, Any]] = lambda _: {}
    policy: TopicPolicy | None = None

    def messages(self, count: int) -> list[Message]:
        """So many of them."""
        return [
            message(**{**self.fields, **self.own(number % MAX_BATCH)}) for number in range(count)
        ]


def message(**fields: Any) -> Message:
    """A message with an id as long as those that `send` makes."""
    values = {"topic": "held", "task": "noop", "body": _BODY, **fields}
    return Message(id=f"{next(_numbers):032x}", **values)


def lived_in(broker: Broker) -> None:
    """Leave one of everything that makes other calls look further: none of it is there in a fresh queue."""
    broker.register(_WORKER, WorkerInfo())
    first = [message(topic="old") for _ in range(6)]
    broker.publish(first, Group("g", tuple(m.id for m in first[:2]), message(topic="later")))
    dead, again, cancelled, running, *_ = _claim(broker, 6, "old")
    broker.settle([Bury(dead.ref, Reason.FAILED, _FAILURE)])
    broker.settle([Later(again.ref, 3600, Charge.FAILURE, _FAILURE)])
    broker.progress(running.ref, b"1")
    broker.cancel([cancelled.id])
    broker.wait([running.id], 0.01)


def _claim(broker: Broker, count: int, topic: str = "held") -> list[Claim]:
    subscription = Subscription((topic,))
    return [
        claim
        for start in range(0, count, MAX_BATCH)
        for claim in broker.claim(_WORKER, Ask(subscription, min(count - start, MAX_BATCH))).claims
    ]


def _publish(sent: Sent, broker: Broker) -> Act:
    _configure(broker, sent)
    batch = sent.messages(MAX_BATCH)
    broker.publish(sent.messages(10))
    return partial(broker.publish, batch)


def _configure(broker: Broker, sent: Sent) -> None:
    if sent.policy is not None:
        broker.configure([sent.policy])


def _group(sent: Sent, broker: Broker) -> Act:
    _configure(broker, sent)
    batch = sent.messages(MAX_BATCH - 1)
    group = Group("big", tuple(m.id for m in batch), message(topic="later"), require_all=True)
    return partial(broker.publish, batch, group)


def _fill(broker: Broker, sent: Sent, count: int) -> list[Message]:
    _configure(broker, sent)
    batch = sent.messages(count)
    for start in range(0, count, MAX_BATCH):
        broker.publish(batch[start : start + MAX_BATCH])
    return batch


def _claims(sent: Sent, broker: Broker) -> Act:
    _fill(broker, sent, 4 * _STEP)
    return partial(broker.claim, _WORKER, Ask(Subscription(), _STEP))


def _returned(sent: Sent, broker: Broker) -> Act:
    """Claims of what has come back."""
    _fill(broker, sent, _STEP)
    broker.settle([Later(c.ref, 0, Charge.FAILURE, _FAILURE) for c in _claim(broker, _STEP)])
    return partial(broker.claim, _WORKER, Ask(Subscription(), _STEP))


def _turn(sent: Sent, broker: Broker) -> Act:
    """Claims, behind settlements of as many."""
    _fill(broker, sent, 8 * _STEP)
    settlements = [Ack(claim.ref) for claim in _claim(broker, _STEP)]
    return partial(broker.claim, _WORKER, Ask(Subscription(), _STEP), settlements)


def _settle(
    sent: Sent, make: Callable[[int, Claim], Settlement], broker: Broker, count: int = _STEP
) -> Act:
    _fill(broker, sent, count + _STEP)
    claims = _claim(broker, count)
    assert len(claims) == count
    return partial(broker.settle, [make(n, claim) for n, claim in enumerate(claims)])


def _mixed(number: int, claim: Claim) -> Settlement:
    kinds: Sequence[Settlement] = (
        Ack(claim.ref, b"r" * 100),
        Later(claim.ref, 1.0, Charge.FAILURE, _FAILURE),
        Bury(claim.ref, Reason.FAILED, _FAILURE),
        Drop(claim.ref),
        Ack(claim.ref),
    )
    return kinds[number % len(kinds)]


def _members(broker: Broker) -> Act:
    """The end of a group's members, the last of which publishes its callback."""
    batch = [message() for _ in range(_STEP)]
    broker.publish(batch, Group("big", tuple(m.id for m in batch), message(topic="later")))
    return partial(broker.settle, [Ack(claim.ref) for claim in _claim(broker, _STEP)])


def _extend(broker: Broker) -> Act:
    _fill(broker, Sent(), MAX_BATCH)
    claims = [claim.ref for claim in _claim(broker, MAX_BATCH)]
    return partial(broker.extend, _WORKER, claims, Beat())


def _ids(verb: str, sent: Sent, running: bool, broker: Broker) -> Act:
    batch = _fill(broker, sent, _PAGE)
    if running:
        assert len(_claim(broker, _PAGE)) == _PAGE
    return partial(getattr(broker, verb), [m.id for m in batch])


def _purge(sent: Sent, broker: Broker) -> Act:
    _fill(broker, sent, 5 * _PAGE)
    return partial(broker.purge, "held", (State.WAITING, State.DELAYED))


def _dead(broker: Broker, sent: Sent) -> list[str]:
    batch = _fill(broker, sent, _PAGE)
    broker.settle([Bury(c.ref, Reason.FAILED, _FAILURE) for c in _claim(broker, _PAGE)])
    return [m.id for m in batch]


def _replay(sent: Sent, broker: Broker) -> Act:
    return partial(broker.replay, _dead(broker, sent))


def _purge_dead(broker: Broker) -> Act:
    _dead(broker, Sent())
    return partial(broker.purge_dead, "held")


def _unregister(sent: Sent, broker: Broker) -> Act:
    _fill(broker, sent, 2 * _PAGE)
    _claim(broker, 2 * _PAGE)
    return partial(broker.unregister, _WORKER)


def _tick(sent: Sent, broker: Broker, claimed: bool = False) -> Act:
    """What time alone brings about meanwhile, met by somebody who only looks."""
    _fill(broker, sent, 2 * _STEP)
    if claimed:
        _claim(broker, 2 * _STEP)
    return broker.stats


def _everything_due(broker: Broker) -> Act:
    """A full claim and settlement in the moment when all that time brings about is due as well."""
    _fill(broker, Sent(policy=TopicPolicy("held", lease=1.0, key_limit=1), own=_key), _STEP)
    _claim(broker, _STEP)
    _fill(broker, Sent({"topic": "due", "delay": 0.9}, _key, TopicPolicy("due", key_limit=1)), 500)
    _fill(broker, Sent({"topic": "gone", "expires_in": 0.9}), 500)
    _fill(broker, Sent({"topic": "now"}), 2 * _STEP)
    settlements = [Ack(claim.ref) for claim in _claim(broker, _STEP, "now")]
    return partial(broker.claim, _WORKER, Ask(Subscription(), _STEP), settlements)


def _regate(broker: Broker) -> Act:
    _fill(broker, Sent(own=_key), 2 * MAX_BATCH)
    return partial(broker.configure, [TopicPolicy("held", key_limit=1)])


def _topics(broker: Broker) -> Act:
    return partial(broker.configure, [TopicPolicy(f"t{n}", limit=5) for n in range(MAX_BATCH)])


def _defaults(broker: Broker) -> Act:
    """New defaults for topics that nobody has declared, each with something that waits."""
    broker.publish([message(topic=f"t{n}", key="k") for n in range(MAX_BATCH)])
    return partial(broker.configure, [], QueuePolicy(defaults=TopicPolicy("-", key_limit=1)))


def _purge_before(sent: Sent, broker: Broker) -> Act:
    """A purge beside which as much is published again."""
    _fill(broker, sent, 5 * MAX_BATCH)
    newer = sent.messages(5 * MAX_BATCH)

    def purge_beside() -> None:
        thread = threading.Thread(target=broker.purge, args=("held",))
        thread.start()
        for start in range(0, len(newer), 100):
            broker.publish(newer[start : start + 100])
        thread.join()

    return purge_beside


def _states(ended: bool, broker: Broker) -> Act:
    batch = _fill(broker, Sent(), 200)
    if ended:
        broker.settle([Ack(claim.ref, b"r" * 100) for claim in _claim(broker, 200)])
    return partial(broker.states, [m.id for m in batch])


def _stats(broker: Broker) -> Act:
    broker.publish([message(topic=f"t{n}") for n in range(300)])
    return broker.stats


def _limited(broker: Broker) -> Act:
    """Claims from 32 topics with limits, rates and reserves, under a limit of the queue."""
    topics = [
        TopicPolicy(f"t{n}", limit=20, rate=Rate(1000, 1.0, 100), reserve=1) for n in range(32)
    ]
    broker.configure(topics, QueuePolicy(limit=10_000))
    broker.publish([message(topic=f"t{n % 32}") for n in range(MAX_BATCH)])
    return partial(broker.claim, _WORKER, Ask(Subscription(), _STEP))


def _key(number: int) -> dict[str, Any]:
    return {"key": f"customer-{number:012d}"}


def _everything(number: int) -> dict[str, Any]:
    return {
        **_all(number),
        "unique": f"order-{next(_numbers):012d}",
        "unique_for": 60.0,
        "result_ttl": 60.0,
        "priority": number % 10,
    }


def _all(number: int) -> dict[str, Any]:
    return {"key": f"customer-{number:012d}", "unique": f"order-{number:012d}", "expires_in": 60.0}


_BY_KEY: Final = TopicPolicy("held", key_limit=1)
_ORDERED: Final = TopicPolicy("held", ordering=Ordering.KEY)
_FIFO: Final = TopicPolicy("held", ordering=Ordering.FIFO)
#: name → what is sent
SENT: Final = {
    "plain": Sent(),
    "of ten priorities": Sent(own=lambda n: {"priority": n % 10}),
    "of 1,000 keys, one at a time each": Sent(own=_key, policy=_BY_KEY),
    "of one key, one at a time": Sent({"key": "k"}, policy=_BY_KEY),
    "of 1,000 keys, in order": Sent(own=_key, policy=_ORDERED),
    "of one key, in order": Sent({"key": "k"}, policy=_ORDERED),
    "in strict order": Sent(policy=_FIFO),
    "delayed": Sent({"delay": 3600.0}),
    "that expire": Sent({"expires_in": 3600.0}),
    "with a unique text": Sent(own=lambda n: {"unique": f"order-{n:012d}"}),
    "with a unique text for a time": Sent(
        own=lambda _: {"unique": f"order-{next(_numbers):012d}", "unique_for": 60.0}
    ),
    "keyed, unique, that expire": Sent(own=_all, policy=_BY_KEY),
    "with everything, a priority too": Sent(own=_everything, policy=_BY_KEY),
    "with everything, delayed": Sent({"delay": 3600.0}, _everything, _BY_KEY),
    "of 10,000 bytes each": Sent({"body": b"x" * 10_000}),
    "of 1,000 new topics": Sent(own=lambda n: {"topic": f"t{n}"}),
    "of 100 new topics": Sent(own=lambda n: {"topic": f"t{n % 100}"}),
}
_KEYED = SENT["of 1,000 keys, one at a time each"]

HOLDS: Final = (
    *(Hold(f"publish {name}", MAX_BATCH, partial(_publish, sent)) for name, sent in SENT.items()),
    Hold("publish a group", MAX_BATCH - 1, partial(_group, Sent())),
    Hold(
        "publish a group with everything",
        MAX_BATCH - 1,
        partial(_group, SENT["with everything, a priority too"]),
    ),
    *(
        Hold(f"claim {name}", _STEP, partial(_claims, SENT[name]))
        for name in (
            "plain",
            "of 1,000 keys, one at a time each",
            "of 1,000 keys, in order",
            "that expire",
            "keyed, unique, that expire",
        )
    ),
    Hold("claim what has expired", _STEP, partial(_claims, Sent({"expires_in": 0.05})), 0.1),
    Hold("claim what has come back", _STEP, partial(_returned, Sent())),
    Hold("claim what has come back, keyed", _STEP, partial(_returned, _KEYED)),
    Hold("claim of 32 topics with limits, rates, reserves", _STEP, _limited),
    Hold("claim and settle plain", 2 * _STEP, partial(_turn, Sent())),
    Hold("claim and settle keyed", 2 * _STEP, partial(_turn, _KEYED)),
    Hold("claim and settle while everything is due", 2 * _STEP, _everything_due, 1.2),
    *(
        Hold(f"settle {name}", _STEP, partial(_settle, sent, make))
        for name, sent, make in (
            ("Ack", Sent(), lambda _, c: Ack(c.ref)),
            ("Ack, keyed", _KEYED, lambda _, c: Ack(c.ref)),
            (
                "Ack, unique, keyed, that expired",
                SENT["keyed, unique, that expire"],
                lambda _, c: Ack(c.ref),
            ),
            ("Ack with a result", Sent(), lambda _, c: Ack(c.ref, b"r" * 100)),
            ("Later", Sent(), lambda _, c: Later(c.ref, 1.0, Charge.FAILURE, _FAILURE)),
            ("Later, keyed", _KEYED, lambda _, c: Later(c.ref, 0, Charge.FAILURE, _FAILURE)),
            (
                "Later, in order",
                SENT["of 1,000 keys, in order"],
                lambda _, c: Later(c.ref, 0, Charge.FAILURE, _FAILURE),
            ),
            ("Bury", Sent(), lambda _, c: Bury(c.ref, Reason.FAILED, _FAILURE)),
            ("Drop", Sent(), lambda _, c: Drop(c.ref)),
            ("all kinds", Sent(), _mixed),
            ("all kinds, keyed", _KEYED, _mixed),
        )
    ),
    Hold("settle Ack of a group's members", _STEP, _members),
    Hold(
        "settle Ack that publish one each",
        MAX_BATCH,
        partial(
            _settle,
            Sent(),
            lambda _, c: Ack(c.ref, publish=[message(topic="next")]),
            count=MAX_BATCH,
        ),
    ),
    Hold("extend", MAX_BATCH, _extend),
    *(
        Hold(f"{verb} {name}", _PAGE, partial(_ids, verb, sent, running))
        for verb, name, sent, running in (
            ("cancel", "waiting", Sent(), False),
            ("cancel", "waiting, keyed", _KEYED, False),
            (
                "cancel",
                "waiting, of one key",
                SENT["of one key, one at a time"],
                False,
            ),
            ("cancel", "delayed", SENT["delayed"], False),
            ("cancel", "running", Sent(), True),
            ("requeue", "plain", Sent(), True),
            ("requeue", "keyed", _KEYED, True),
        )
    ),
    Hold("purge plain", _PAGE, partial(_purge, Sent())),
    Hold("purge keyed", _PAGE, partial(_purge, _KEYED)),
    Hold("purge delayed", _PAGE, partial(_purge, SENT["delayed"])),
    Hold("purge beside sends", _PAGE, partial(_purge_before, Sent())),
    Hold("purge beside sends, delayed", _PAGE, partial(_purge_before, SENT["delayed"])),
    Hold("replay plain", _PAGE, partial(_replay, Sent())),
    Hold("replay keyed", _PAGE, partial(_replay, _KEYED)),
    Hold("purge_dead", _PAGE, _purge_dead),
    Hold("unregister, keyed", _PAGE, partial(_unregister, _KEYED)),
    Hold("what is due, keyed", 125, partial(_tick, Sent({"delay": 0.5}, _key, _BY_KEY)), 0.6),
    Hold(
        "what is due, of one key",
        125,
        partial(_tick, Sent({"delay": 0.5, "key": "k"}, policy=_BY_KEY)),
        0.6,
    ),
    Hold("what has expired", 100, partial(_tick, Sent({"expires_in": 0.5})), 0.6),
    Hold(
        "leases that lapsed",
        60,
        partial(
            _tick, Sent(own=_key, policy=TopicPolicy("held", lease=1.0, key_limit=1)), claimed=True
        ),
        1.1,
    ),
    Hold("regate", 150, _regate),
    Hold("configure, topics that change", 30, _topics),
    Hold("configure, other defaults and gates", 30, _defaults),
    Hold("states of what waits", 200, partial(_states, False)),
    Hold("states of what has ended", 200, partial(_states, True)),
    Hold("stats, topics", 200, _stats),
)
