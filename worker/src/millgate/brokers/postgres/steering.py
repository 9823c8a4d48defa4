"""Steering and administration: policies, fences, cancelling, purging, replaying, locks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from millgate.brokers.base import CancelState, Fenced, Lock, State
from millgate.brokers.postgres.arrays import Texts
from millgate.brokers.postgres.forwarding import Forwarding
from millgate.errors import BrokerUnavailable, InvalidInput
from millgate.queues import (
    Configuration,
    QueuePolicy,
    TopicPolicy,
    check_policy,
    check_queue,
    policy_to_dict,
    queue_to_dict,
)
from millgate.rules import check_name, check_topic, check_ttl

_PURGED: Final = (State.WAITING, State.DELAYED)
_BATCH: Final = 1000


class Steering(Forwarding):
    """The verbs of operators, human and not."""

    def configure(
        self,
        topics: Sequence[TopicPolicy],
        queue: QueuePolicy | None = None,
        *,
        replace: bool = False,
    ) -> int:
        """Store policies; the revision."""
        for policy in topics:
            check_policy(policy)
        if queue is not None:
            check_queue(queue)
        wanted = json.dumps({policy.name: policy_to_dict(policy) for policy in topics})
        whole = None if queue is None else json.dumps(queue_to_dict(queue))
        [(revision, shut)] = self.rows("configure", wanted, whole, replace)
        if shut:
            # it is stored, and everybody's tick goes on with this
            with suppress(BrokerUnavailable):
                self.regate(self.pool.deadline / 2)
        return int(revision)

    def configuration(self) -> Configuration:
        """What is stored."""
        return self.refresh().configuration

    def pause(self, topic: str, paused: bool) -> None:
        """Stop or resume claims from a topic by hand."""
        check_topic(topic)
        self.rows("pause", topic, paused)

    def fence(self, worker: str, ttl: float) -> Fenced:
        """Forbid a worker to claim."""
        check_ttl(ttl)
        [(known, leased)] = self.rows("fence", worker, float(ttl))
        return Fenced(known, leased)

    def unfence(self, worker: str) -> bool:
        """Lift a fence."""
        return bool(self.value("unfence", worker))

    def cancel(self, ids: Sequence[str]) -> list[CancelState]:
        """Remove what has not started; signal what runs."""
        return [CancelState(word) for word in self.prepared("cancel", Texts(ids))] if ids else []

    def requeue(self, ids: Sequence[str]) -> list[str]:
        """Take running messages from their holders."""
        taken = set(self.value("requeue", Texts(ids))) if ids else set()
        return [name for name in dict.fromkeys(ids) if name in taken]

    def purge(self, topic: str, states: Sequence[State] = _PURGED) -> int:
        """Remove a topic's messages in these states, in batches; what is published meanwhile stays."""
        strange = [state for state in states if state not in _PURGED]
        if strange:
            raise InvalidInput(
                f"cannot purge {strange[0]!s} messages; purge waiting and delayed, cancel what runs"
            )
        waiting, delayed = State.WAITING in states, State.DELAYED in states
        self.rows("upkeep")
        removed, upto = 0, None
        while True:
            [(count, upto)] = self.rows("purge", topic, waiting, delayed, _BATCH, upto)
            if not count:
                return removed
            removed += int(count)

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Let dead letters wait again; those that were there."""
        return list(self.value("replay", Texts(list(dict.fromkeys(ids))))) if ids else []

    def purge_dead(self, topic: str | None = None, ids: Sequence[str] | None = None) -> int:
        """Forget dead letters."""
        named = None if ids is None else Texts(ids)
        removed = 0
        while count := int(self.value("purge_dead", topic, named, _BATCH)):
            removed += count
        return removed

    def acquire(self, name: str, holder: str, ttl: float) -> Lock | None:
        """Take or renew a lock."""
        check_ttl(ttl)
        check_name("a lock's name", name)
        check_name("a lock's holder", holder)
        fence = self.value("acquire", name, holder, float(ttl))
        return None if fence is None else Lock(name, holder, fence, ttl)

    def renew(self, name: str, holder: str, fence: int, ttl: float) -> bool:
        """Keep a lock."""
        check_ttl(ttl)
        return bool(self.value("renew", name, holder, fence, float(ttl)))

    def release(self, name: str, holder: str | None = None, fence: int | None = None) -> bool:
        """Give a lock back."""
        return bool(self.value("release_lock", name, holder, fence))

    def locks(self) -> list[Lock]:
        """All locks held now."""
        return [Lock(*row) for row in self.rows("locks")]
