"""What a broker is configured with: the policy of a topic, of the whole queue, and a worker's subscription. Pure.

Policies that reach a broker are resolved: every field has its value. Who resolves (Topic, then the queue's
defaults, then the built-in ones here) is the operator or `millgate dev`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.limits import Rate
from millgate.message import LONGEST, TOPIC_NAME
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy


class Ordering(StrEnum):
    """How strictly a topic keeps the order of publication."""

    NONE = "None"  # oldest first among those that may start
    KEY = "PerKey"  # the next of a key starts when the previous one has ended for good
    FIFO = "FIFO"  # the next starts when the previous one has ended for good


class DeadPolicy(StrEnum):
    """What becomes of a message that is given up."""

    KEEP = "Keep"
    DROP = "Drop"
    FORWARD = "Forward"  # published to `dead_topic` as a new message, headers saying why


class Undeclared(StrEnum):
    """Whether messages for topics that nobody configured are taken."""

    ALLOW = "Allow"
    REJECT = "Reject"


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """Everything that the claim, the settlement and the dead letters of one topic obey. Times in seconds."""

    name: str
    paused: bool = False
    priority: int = 5  # between topics: strict, 9 first
    weight: int = 10  # fair share among topics of one level
    boost_after: float = 600.0  # each interval waited raises the level by one; 0: never
    limit: int | None = None  # in flight in the whole fleet
    reserve: int = 0  # slots of the queue's limit kept for this topic
    key_limit: int | None = None  # in flight per key
    rate: Rate | None = None
    ordering: Ordering = Ordering.NONE
    soft_timeout: float | None = None
    hard_timeout: float = 3600.0
    lease: float = 60.0
    retry: RetryPolicy = RetryPolicy()
    dead: DeadPolicy = DeadPolicy.KEEP
    dead_topic: str | None = None
    dead_retention: float = 14 * 86400.0
    dead_max: int = 100_000  # 0: no bound by number
    expires_in: float | None = None  # for messages that set no expiry of their own
    result_ttl: float = 86400.0
    payload_max: int = 256 * 1024  # bytes of a record

    @property
    def effective_limit(self) -> int | None:
        """The limit with the ordering applied: FIFO means one at a time."""
        return 1 if self.ordering is Ordering.FIFO else self.limit

    @property
    def effective_key_limit(self) -> int | None:
        """The limit per key with the ordering applied: PerKey means one of a key at a time."""
        return 1 if self.ordering is Ordering.KEY else self.key_limit


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What holds for all topics of a queue together."""

    limit: int | None = None  # in flight
    max_waiting: int | None = None  # waiting + delayed + parked; above it publish raises QueueFull
    suspended: bool = False  # no claims at all
    undeclared: Undeclared = Undeclared.ALLOW
    #: For undeclared topics; its name is not used.
    defaults: TopicPolicy = TopicPolicy(name="defaults")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The stored configuration; `revision` grows by one with each change."""

    revision: int = 0
    queue: QueuePolicy = QueuePolicy()
    topics: Mapping[str, TopicPolicy] = field(default_factory=dict)

    def policy(self, topic: str) -> TopicPolicy:
        """The policy that holds for a topic, declared or not. Slots are reserved for declared ones only: there may be
        any number of others."""
        found = self.topics.get(topic)
        if found is not None:
            return found
        return replace(self.queue.defaults, name=topic, reserve=0)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which topics a worker takes: globs, `exclude` winning. Empty `include` means all, never nothing.

    With `ordered`, the position in `include` is the priority: nothing is claimed from a later pattern while an
    earlier one has claimable work. Otherwise the topics' own priorities decide.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ordered: bool = False

    def matches(self, topic: str) -> bool:
        """Whether this worker takes work of the topic."""
        if any(fnmatchcase(topic, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(fnmatchcase(topic, pattern) for pattern in self.include)

    def level(self, topic: str, policy: TopicPolicy) -> int:
        """The strict level of a topic for this worker; a higher one is served first."""
        if not self.ordered:
            return policy.priority
        for position, pattern in enumerate(self.include):
            if fnmatchcase(topic, pattern):
                return len(self.include) - position
        return 0


#: No count in a policy is above: every broker can hold it, and sums of several.
MOST: Final = 1_000_000_000


def check_queue(queue: QueuePolicy) -> None:
    """Raise InvalidInput for a queue's policy that cannot hold; brokers call it in `configure`."""
    check_policy(replace(queue.defaults, name="defaults"))
    if queue.limit is not None and queue.limit < 1:
        raise InvalidInput("the queue's limit is at least 1; to stop it, suspend it")
    for name, count in (("limit", queue.limit), ("max_waiting", queue.max_waiting)):
        if count is not None and count > MOST:
            raise InvalidInput(f"the queue's {name} is at most {MOST}; leave it out for no bound")


def check_policy(policy: TopicPolicy) -> None:
    """Raise InvalidInput for a policy that cannot hold; brokers call it in `configure`."""
    for holds, rule in (
        *_rules_of_starts(policy),
        *_rules_of_ends(policy),
        *_rules_of_sizes(policy),
    ):
        if not holds:
            raise InvalidInput(f"topic {policy.name!r}: {rule}")


def _rules_of_starts(policy: TopicPolicy) -> tuple[tuple[bool, str], ...]:
    rate = policy.rate
    return (
        (
            TOPIC_NAME.match(policy.name) is not None,
            "its name has letters, digits, '.', '_', ':' and '-' only, 1 to 128",
        ),
        (0 <= policy.priority <= 9, "priority is between 0 and 9"),
        (1 <= policy.weight <= 100, "weight is between 1 and 100"),
        (0 <= policy.boost_after < LONGEST, "boost_after is at least 0s, which is never"),
        (
            policy.limit is None or policy.limit >= 1,
            "limit is at least 1; to stop a topic, pause it",
        ),
        (policy.key_limit is None or policy.key_limit >= 1, "key_limit is at least 1"),
        (policy.limit is None or policy.reserve <= policy.limit, "reserve is at most limit"),
        (policy.reserve >= 0, "reserve is at least 0"),
        (
            policy.ordering is not Ordering.FIFO or policy.limit in (None, 1),
            "FIFO allows a limit of 1 only",
        ),
        (
            rate is None or (0.1 <= rate.per < LONGEST and rate.capacity >= 1),
            "rate.per is at least 100ms",
        ),
        (rate is None or rate.count >= 1, "rate.count is at least 1"),
        (
            policy.expires_in is None or 0 < policy.expires_in < LONGEST,
            "expires_in is more than 0s",
        ),
        (1 <= policy.payload_max <= 16 * 2**20, "payload_max is at least 1, at most 16Mi"),
    )


def _rules_of_ends(policy: TopicPolicy) -> tuple[tuple[bool, str], ...]:
    return (
        (1 <= policy.lease < LONGEST, "lease is at least 1s, and ends"),
        (0 <= policy.hard_timeout < LONGEST, "hard_timeout is at least 0s, and ends"),
        (
            policy.soft_timeout is None or policy.soft_timeout >= 0,
            "soft_timeout is at least 0s",
        ),
        (
            policy.soft_timeout is None or policy.soft_timeout < policy.hard_timeout,
            "soft_timeout is below hard_timeout",
        ),
        (policy.retry.attempts >= 1, "retry.attempts is at least 1"),
        (policy.retry.losses >= 0, "retry.losses is at least 0"),
        (policy.retry.interruptions >= 0, "retry.interruptions is at least 0"),
        (0 <= policy.result_ttl < LONGEST, "result_ttl is at least 0s, and ends"),
        (
            policy.dead is not DeadPolicy.FORWARD or policy.dead_topic not in (None, policy.name),
            "Forward names another topic",
        ),
        (
            policy.dead_topic is None or TOPIC_NAME.match(policy.dead_topic) is not None,
            "dead_topic is the name of a topic",
        ),
        (policy.dead_max >= 0, "dead_max is at least 0, which is no bound"),
        (0 <= policy.dead_retention < LONGEST, "dead_retention is at least 0s, and ends"),
    )


def _rules_of_sizes(policy: TopicPolicy) -> Iterator[tuple[bool, str]]:
    rate, retry = policy.rate, policy.retry
    counts = {
        "limit": policy.limit,
        "key_limit": policy.key_limit,
        "reserve": policy.reserve,
        "dead_max": policy.dead_max,
        "retry.attempts": retry.attempts,
        "retry.losses": retry.losses,
        "retry.interruptions": retry.interruptions,
        "rate.count": None if rate is None else rate.count,
        "rate.burst": None if rate is None else rate.burst,
    }
    for name, count in counts.items():
        yield count is None or count <= MOST, f"{name} is at most {MOST}"
    for name in ("initial", "factor", "max"):
        yield (
            0 <= getattr(retry.backoff, name) < LONGEST,
            f"retry.backoff.{name} is at least 0, and ends",
        )


def policy_to_dict(policy: TopicPolicy) -> dict[str, Any]:
    """Plain JSON types, for a row, a journal or a frame."""
    return asdict(policy)


def policy_from_dict(data: Mapping[str, Any]) -> TopicPolicy:
    """The policy that `policy_to_dict` wrote; keys that a newer version added are ignored."""
    known = _known(TopicPolicy, data)
    rate, retry = known.get("rate"), _known(RetryPolicy, known.get("retry") or {})
    backoff = _known(Backoff, retry.pop("backoff", None) or {})
    if "type" in backoff:
        backoff["type"] = BackoffType(backoff["type"])
    if "jitter" in backoff:
        backoff["jitter"] = Jitter(backoff["jitter"])
    known["rate"] = Rate(**rate) if rate else None
    known["retry"] = RetryPolicy(**retry, backoff=Backoff(**backoff))
    known["ordering"] = Ordering(known.get("ordering", Ordering.NONE))
    known["dead"] = DeadPolicy(known.get("dead", DeadPolicy.KEEP))
    return TopicPolicy(**known)


def _known(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in kind.__slots__ if name in data}


def queue_to_dict(queue: QueuePolicy) -> dict[str, Any]:
    """Plain JSON types."""
    return asdict(queue)


def queue_from_dict(data: Mapping[str, Any]) -> QueuePolicy:
    """The policy that `queue_to_dict` wrote."""
    known = _known(QueuePolicy, data)
    known["undeclared"] = Undeclared(known.get("undeclared", Undeclared.ALLOW))
    if "defaults" in known:
        known["defaults"] = policy_from_dict(known["defaults"])
    return QueuePolicy(**known)
