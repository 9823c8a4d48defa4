"""What every verb stands on: calling the server's functions by name, and knowing the topics' numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, TypeVar

import psycopg

from millgate.brokers.postgres.arrays import Texts
from millgate.brokers.postgres.connection import Connection, Pool
from millgate.brokers.postgres.url import Target
from millgate.clock import Clock
from millgate.frozen import dataclass
from millgate.queues import (
    Configuration,
    QueuePolicy,
    Subscription,
    policy_from_dict,
    queue_from_dict,
)
from millgate.rules import check_texts

T = TypeVar("T")
#: The functions of this program; older ones stay in the database beside them.
VERSION: Final = 1
_NO_TOPICS: Final = -1


class Selected(NamedTuple):
    """The topics that a subscription takes as of one version of the list; None: all. Levels when it orders them."""

    version: int = _NO_TOPICS
    numbers: list[int] | None = None
    levels: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a queue as of one version of its list."""

    version: int = _NO_TOPICS
    names: Mapping[int, str] = field(default_factory=dict)
    configuration: Configuration = field(default_factory=Configuration)


class Session:
    """The base of the broker's parts."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        self.target = target
        self.clock = clock
        self.pool = Pool(target, deadline, clock)
        self.topics = Topics()
        self._selected: dict[Subscription, Selected] = {}
        self._statements: dict[tuple[str, int], str] = {}

    def statement(self, verb: str, count: int) -> str:
        """The statement that calls one function of the schema with that many parameters."""
        key = (verb, count)
        found = self._statements.get(key)
        if found is None:
            holes = ", ".join(["%s"] * count)
            found = f'SELECT * FROM "{self.target.schema}".{verb}_{VERSION}({holes})'  # noqa: S608 -- checked names
            self._statements[key] = found
        return found

    def rows(
        self, verb: str, *parameters: Any, deadline: float | None = None
    ) -> list[tuple[Any, ...]]:
        """All rows that a function answers; repeated when the connection is lost."""
        return self.pool.call(
            lambda connection, _: self.run(connection, verb, parameters), deadline
        )

    def value(self, verb: str, *parameters: Any, deadline: float | None = None) -> Any:
        """The first column of the only row."""
        return self.rows(verb, *parameters, deadline=deadline)[0][0]

    def run(
        self, connection: Connection, verb: str, parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """All rows that a function answers, on a connection at hand."""
        cursor = connection.cursor(binary=True)
        try:
            cursor.execute(self.statement(verb, len(parameters)), parameters)
        except (UnicodeEncodeError, psycopg.DataError):
            for value in parameters:
                listed = value.values if isinstance(value, Texts) else [value]
                check_texts(*(text for text in listed if isinstance(text, str)))
            raise
        return cursor.fetchall()

    def prepared(self, verb: str, *parameters: Any) -> Any:
        """The first column of the only row, after what time alone brings about was brought about."""

        def both(connection: Connection, _: bool) -> Any:
            self.run(connection, "upkeep", ())
            return self.run(connection, verb, parameters)[0][0]

        return self.pool.call(both)

    def within(self, work: Callable[[Connection, bool], T]) -> T:
        """What `work` answers in one transaction; done again whole when the connection is lost."""

        def whole(connection: Connection, repeated: bool) -> T:
            with connection.transaction():
                return work(connection, repeated)

        return self.pool.call(whole)

    def refresh(self) -> Topics:
        """Read the topics and policies anew."""
        names: dict[int, str] = {}
        policies = {}
        revision, version, queue = 0, 0, QueuePolicy()
        for number, name, policy, _, row_revision, row_version in self.rows("configuration"):
            if name is None:
                revision, version = row_revision, row_version
                queue = queue_from_dict(policy) if policy else queue
                continue
            names[number] = name
            if policy is not None:
                policies[name] = policy_from_dict(policy)
        self.topics = Topics(version, names, Configuration(revision, queue, policies))
        return self.topics

    def name_of(self, topic: int) -> str:
        """The name of a topic by its number."""
        name = self.topics.names.get(topic)
        return name if name is not None else self.refresh().names[topic]

    def selected(self, subscription: Subscription) -> Selected:
        """The topics that a subscription takes, as far as they are known here."""
        if not (subscription.include or subscription.exclude or subscription.ordered):
            return Selected()
        known = self._selected.get(subscription)
        if known is None or known.version != self.topics.version:
            known = self._select(subscription)
            if len(self._selected) > 100:
                self._selected.clear()
            self._selected[subscription] = known
        return known

    def _select(self, subscription: Subscription) -> Selected:
        topics = self.topics if self.topics.version != _NO_TOPICS else self.refresh()
        found = [number for number, name in topics.names.items() if subscription.matches(name)]
        levels = None
        if subscription.ordered:
            policy = topics.configuration.policy
            levels = [
                subscription.level(topics.names[number], policy(topics.names[number]))
                for number in found
            ]
        return Selected(topics.version, found, levels)


def new_call() -> int:
    """A number that tells one call's repeats from all other calls."""
    return random.getrandbits(62)
