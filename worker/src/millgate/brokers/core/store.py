"""Everything that one queue is, as plain data; the verbs beside it change it and keep its counters right."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from millgate.brokers.base import State
from millgate.brokers.core.expiring import Expiring
from millgate.brokers.core.recent import Recent
from millgate.brokers.core.row import Dead, Row, Span
from millgate.brokers.core.topic import Topic
from millgate.brokers.core.worker import Worker
from millgate.message import Group, Message
from millgate.outcome import Failure
from millgate.queues import Configuration, Subscription, TopicPolicy

_SUBSCRIPTIONS = 256  # answers to "which topics match" are kept for so many subscriptions
_SLACK = 64  # entries of `dues` that are never worth a sweep


@dataclass(slots=True)
class News:
    """What others may wait for: topics that may have become claimable, ids that have ended."""

    topics: set[str] = field(default_factory=set)
    ended: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.topics or self.ended)


@dataclass(slots=True)
class Held:
    """Who has a lock."""

    holder: str
    fence: int


@dataclass(slots=True)
class Ended:
    """The end of one message, kept for its time to live."""

    state: State
    topic: str
    result: bytes | None = None
    failure: Failure | None = None
    reason: str = ""
    progress: bytes | None = None
    attempt: int = 0


class Gathering:
    """A group that is not complete, or whose callback lies in the dead letters because a member failed."""

    __slots__ = (
        "buried",
        "callback",
        "failed",
        "id",
        "members",
        "pending",
        "require_all",
        "watches",
        "ways",
    )

    def __init__(self, group: Group, members: tuple[str, ...], callback: Message) -> None:
        self.id = group.id
        self.members = members
        self.callback = callback
        self.require_all = group.require_all
        self.pending = set(members)
        self.failed: set[str] = set()
        self.watches: list[str] = []
        #: Of members that are later steps of a chain: the ids of its steps up to them.
        self.ways: dict[str, tuple[str, ...]] = {}
        self.buried = False


class Store:
    """One queue. `salt` makes tokens differ from those of another life of the same queue."""

    def __init__(self, salt: str = "") -> None:
        self.salt = salt
        #: The latest time that was handed in; a clock that steps back does not turn it back.
        self.now = 0.0
        self.alarm = 0.0  # nothing happens by itself before this
        self.seq = 0
        self.serial = 0
        self.grants = 0
        self.config = Configuration()
        self.topics: dict[str, Topic] = {}
        self.active: dict[str, Topic] = {}  # those with something in the lane
        self.delaying: dict[str, Topic] = {}  # those that may have something delayed
        self.reserved: list[Topic] = []  # those with a reserve
        self.rated: list[Topic] = []  # those with a rate
        self.vtime = [0.0] * 10  # where a topic of that priority joins in
        self.rows: dict[str, Row] = {}
        self.leased = 0
        self.spans: dict[float, Span] = {}
        self.dues: list[tuple[float, str]] = []  # when a topic's first delayed row may be due
        self.expiries: Expiring[str, Row] = Expiring()
        self.results: Expiring[str, Ended] = Expiring()
        self.recent = Recent()
        self.holders: dict[str, str] = {}  # unique text → task_id, until the message has ended
        self.windows: Expiring[str, str] = Expiring()  # the same, for a window of time
        self.workers: OrderedDict[str, Worker] = OrderedDict()  # longest silent first
        self.groups: dict[str, Gathering] = {}
        #: id → groups, and in each the member that it stands for
        self.watched: dict[str, list[tuple[str, str]]] = {}
        self.callbacks: dict[str, str] = {}  # buried callback → its group
        self.dead: dict[str, Dead] = {}
        self.locks: Expiring[str, Held] = Expiring()
        self.slots: dict[str, float] = {}  # schedule → last slot
        self.graves = float("inf")  # when the first dead letter may be too old
        self.news = News()
        self._reach: dict[Subscription, dict[str, int | None]] = {}

    def topic(self, name: str) -> Topic:
        """The topic of that name, made on its first use."""
        found = self.topics.get(name)
        if found is None:
            found = Topic(self.config.policy(name), name in self.config.topics)
            self.topics[name] = found
            if found.policy.rate is not None:  # by the queue's defaults
                self.rated.append(found)
        return found

    def policy(self, name: str) -> TopicPolicy:
        """The policy that holds for a topic, without making it."""
        found = self.topics.get(name)
        return found.policy if found is not None else self.config.policy(name)

    def reach(self, subscription: Subscription) -> dict[str, int | None]:
        """What is known so far of the topics' levels for a subscription; `level` adds to it."""
        known = self._reach.get(subscription)
        if known is None:
            if len(self._reach) >= _SUBSCRIPTIONS:
                self._reach.pop(next(iter(self._reach)))
            known = self._reach[subscription] = {}
        return known

    def level(self, subscription: Subscription, topic: Topic) -> int | None:
        """The level of a topic for a subscription; None: it does not take its work."""
        known = self.reach(subscription)
        if topic.name not in known:
            takes = subscription.matches(topic.name)
            known[topic.name] = subscription.level(topic.name, topic.policy) if takes else None
        return known[topic.name]

    def reconfigured(self) -> None:
        """Derive anew what is derived from the policies."""
        self._reach.clear()
        self.reserved = [t for t in self.topics.values() if t.policy.reserve]
        self.rated = [t for t in self.topics.values() if t.policy.rate is not None]

    def running(self) -> Iterator[Row]:
        """Every row that a worker holds."""
        for span in self.spans.values():
            yield from span.rows.values()

    def due_at(self, topic: Topic, when: float) -> None:
        """Remember that a topic has a row which is due then."""
        heapq.heappush(self.dues, (when, topic.name))
        self.alarm = min(self.alarm, when)
        if len(self.dues) > 2 * len(self.rows) + _SLACK:
            self.dues = [
                (due, name) for name, t in self.topics.items() if (due := t.next_due()) is not None
            ]
            heapq.heapify(self.dues)

    def room(self) -> int | None:
        """Slots that the queue's limit leaves after everybody's unmet reserve; None: no limit."""
        limit = self.config.queue.limit
        if limit is None:
            return None
        return limit - self.leased - sum(self.unmet(topic) for topic in self.reserved)

    def unmet(self, topic: Topic) -> int:
        """Free slots of a topic's reserve."""
        return max(0, topic.policy.reserve - topic.leased)
