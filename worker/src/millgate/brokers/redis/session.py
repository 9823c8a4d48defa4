"""What every verb stands on: calling the scripts by name, and knowing the topics' numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from millgate.brokers.redis import policies
from millgate.brokers.redis.pool import Pool
from millgate.brokers.redis.url import Target
from millgate.clock import Clock
from millgate.errors import (
    BrokerError,
    BrokerUnavailable,
    PermissionMissing,
    SchemaTooNew,
)
from millgate.frozen import dataclass
from millgate.queues import (
    Configuration,
    QueuePolicy,
    Subscription,
    policy_from_dict,
    queue_from_dict,
)
from millgate.rules import check_texts

#: The format of what is stored; a script meets another number and does nothing.
SCHEMA = 1
_SUBSCRIPTIONS = 100
#: Verbs of work, whose texts were looked at when they were stored first.
_CHECKED = frozenset(
    {"begin", "claim", "extend", "progress", "publish", "send", "settle", "stage", "step"}
)


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a queue as of one version of their list."""

    version: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
    configuration: Configuration = field(default_factory=Configuration)


class Session:
    """The base of the broker's parts."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        self.target = target
        self.clock = clock
        self.pool = Pool(target, deadline, clock)
        self.topics = Topics()
        self._selected: dict[Subscription, tuple[str, list[Any]]] = {}

    def run(
        self, verb: str, *arguments: Any, deadline: float | None = None, replicas: int = 0
    ) -> Any:
        """What a verb's script answers. A queue that is not there (a new server, or one that lost its data) is made; a
        batch that somebody is carrying out in several calls is carried out first."""
        if verb not in _CHECKED:
            check_texts(*(value for value in arguments if isinstance(value, str)))
        end = self.clock.monotonic() + (deadline or self.pool.deadline)
        while True:
            try:
                return self._evaluate(verb, *arguments, deadline=deadline, replicas=replicas)
            except BrokerError as error:
                if "MGBATCH" not in str(error):
                    raise
                if self.clock.monotonic() >= end:
                    raise BrokerUnavailable(
                        f"{self.target.endpoint}: large batches come without end; send smaller ones"
                    ) from error
            self.pool.evaluate("step", deadline=deadline)

    def carry_on(self, steps: int) -> None:
        """Carry out a batch that was begun, whatever of it others have done."""
        for _ in range(steps):
            if not self.run("step"):
                return

    def _evaluate(self, verb: str, *arguments: Any, deadline: float | None, replicas: int) -> Any:
        try:
            return self.pool.evaluate(verb, *arguments, deadline=deadline, replicas=replicas)
        except UnicodeEncodeError:
            check_texts(*(value for value in arguments if isinstance(value, str)))
            raise
        except BrokerError as error:
            if "MGSCHEMA" not in str(error):
                raise
        self.prepare()
        return self.pool.evaluate(verb, *arguments, deadline=deadline, replicas=replicas)

    def prepare(self) -> None:
        """Make the queue unless it is there. Raises SchemaTooNew, ForeignPeer, PermissionMissing."""
        missing = self.pool.evaluate("probe")
        if missing:
            rights = " ".join(f"+{command.decode()}" for command in missing)
            raise PermissionMissing(
                f"{self.target.endpoint}: the user may not call all that the verbs use; grant {rights}"
            )
        queue = QueuePolicy()
        defaults = policies.packed(queue.defaults, declared=False)
        stored = self.pool.evaluate("setup", defaults, policies.queue_text(queue))
        if stored != SCHEMA:
            raise SchemaTooNew(
                f"{self.target.endpoint}: the queue is stored in format {stored}, this program knows {SCHEMA}; "
                "upgrade it"
            )

    def refresh(self) -> Topics:
        """Read the topics and policies anew."""
        revision, version, queue, stored, numbers = self.run("configuration")
        known = {name.decode(): policy_from_dict(_json(text)) for name, text in _pairs(stored)}
        whole = queue_from_dict(_json(queue)) if queue else QueuePolicy()
        self.topics = Topics(
            version.decode(),
            {name.decode(): int(number) for name, number in _pairs(numbers)},
            Configuration(revision, whole, known),
        )
        return self.topics

    def selected(self, subscription: Subscription) -> tuple[str, list[Any]]:
        """The version of the list of topics, and a subscription as the scripts read it: -1 for all topics, or how many
        and their numbers, and the levels when it orders them."""
        if not (subscription.include or subscription.exclude or subscription.ordered):
            return self.topics.version, ["-1"]
        known = self._selected.get(subscription)
        if known is None or known[0] != self.topics.version:
            known = self._select(subscription)
            if len(self._selected) > _SUBSCRIPTIONS:
                self._selected.clear()
            self._selected[subscription] = known
        return known

    def _select(self, subscription: Subscription) -> tuple[str, list[Any]]:
        topics = self.topics if self.topics.version else self.refresh()
        found = {n: number for n, number in topics.numbers.items() if subscription.matches(n)}
        chosen: list[Any] = [len(found), *found.values()]
        if subscription.ordered:
            policy = topics.configuration.policy
            chosen += [subscription.level(name, policy(name)) for name in found]
        return topics.version, chosen


def _pairs(flat: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _json(text: bytes) -> Any:
    return json.loads(text)


def new_call() -> str:
    """A number, in hexadecimal, that tells one call's repeats from all other calls."""
    return f"{random.getrandbits(64):016x}"
