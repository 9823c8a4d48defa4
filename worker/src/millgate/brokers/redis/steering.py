"""Steering and administration: policies, fences, cancelling, purging, replaying, locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from millgate.brokers.base import CancelState, Fenced, Lock, State
from millgate.brokers.redis import policies
from millgate.brokers.redis.session import Session, new_call
from millgate.errors import InvalidInput
from millgate.queues import Configuration, QueuePolicy, TopicPolicy, check_policy, check_queue
from millgate.rules import check_name, check_topic, check_ttl

_PURGED: Final = (State.WAITING, State.DELAYED)
_BATCH: Final = 150


class Steering(Session):
    """The verbs of operators, human and not."""

    def configure(
        self,
        topics: Sequence[TopicPolicy],
        queue: QueuePolicy | None = None,
        *,
        replace: bool = False,
    ) -> int:
        """Store policies; the revision. Many that change are one step that takes several calls. A topic whose key limit
        or order changes is closed until all that waits in it has passed its new gates, step by step."""
        for policy in topics:
            check_policy(policy)
        if queue is not None:
            check_queue(queue)
        arguments: list[Any] = ["1" if replace else "0"]
        if queue is None:
            arguments += ["", ""]
        else:
            arguments += [policies.queue_text(queue), policies.packed_queue(queue)]
        arguments.append(new_call())
        for policy in {policy.name: policy for policy in topics}.values():
            packed = policies.packed(policy, declared=True)
            arguments += [policy.name, policies.text_of(policy), packed, policy.reserve or ""]
        revision, steps, moving = self.run("configure", *arguments)
        self.carry_on(steps)
        while steps or moving:
            steps, moving = 0, self.run("regate")
        return int(revision)

    def configuration(self) -> Configuration:
        """What is stored."""
        return self.refresh().configuration

    def pause(self, topic: str, paused: bool) -> None:
        """Stop or resume claims from a topic by hand."""
        check_topic(topic)
        self.run("pause", topic, "1" if paused else "0")

    def fence(self, worker: str, ttl: float) -> Fenced:
        """Forbid a worker to claim."""
        check_ttl(ttl)
        known, leased = self.run("fence", worker, repr(float(ttl)))
        return Fenced(bool(known), leased if known else None)

    def unfence(self, worker: str) -> bool:
        """Lift a fence."""
        return bool(self.run("fence", worker, "")[1])

    def cancel(self, ids: Sequence[str]) -> list[CancelState]:
        """Remove what has not started; signal what runs."""
        strange = self._strange(ids) if len(ids) > _BATCH else set()
        wanted = [name for name in ids if name not in strange]
        words = (word for page in _pages(wanted) for word in self.run("cancel", *page))
        return [
            CancelState.UNKNOWN if name in strange else CancelState(next(words).decode())
            for name in ids
        ]

    def _strange(self, ids: Sequence[str]) -> set[str]:
        """Those that are unknown: what the ends of others bring about stays, whichever call it is named in."""
        strange: set[str] = set()
        for page in _pages(ids):
            answers, _ = self.run("states", "", "0", *page)
            strange.update(name for name, known in zip(page, answers, strict=True) if not known)
        return strange

    def requeue(self, ids: Sequence[str]) -> list[str]:
        """Take running messages from their holders."""
        names = list(dict.fromkeys(ids))
        return [name.decode() for page in _pages(names) for name in self.run("requeue", *page)]

    def purge(self, topic: str, states: Sequence[State] = _PURGED) -> int:
        """Remove a topic's messages in these states, in batches; what is published meanwhile stays."""
        strange = [state for state in states if state not in _PURGED]
        if strange:
            raise InvalidInput(
                f"cannot purge {strange[0]!s} messages; purge waiting and delayed, cancel what runs, "
                "purge_dead the dead"
            )
        wanted = ["1" if state in states else "0" for state in _PURGED]
        count, last, place = 0, "", ""
        while True:
            removed, last, place = self.run("purge", topic, *wanted, _BATCH, last, place)
            count += int(removed)
            if not place:
                return count

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Let dead letters wait again; those that were there."""
        names = list(dict.fromkeys(ids))
        return [name.decode() for page in _pages(names) for name in self.run("replay", *page)]

    def purge_dead(self, topic: str | None = None, ids: Sequence[str] | None = None) -> int:
        """Forget dead letters."""
        if topic == "":  # which stands for all where it is sent
            return 0
        if ids is not None:
            return sum(
                self.run("purge_dead", topic or "", _BATCH, "1", *page) for page in _pages(ids)
            )
        removed = 0
        while count := int(self.run("purge_dead", topic or "", _BATCH, "0")):
            removed += count
        return removed

    def acquire(self, name: str, holder: str, ttl: float) -> Lock | None:
        """Take or renew a lock."""
        check_ttl(ttl)
        check_name("a lock's name", name)
        check_name("a lock's holder", holder)
        fence = self.run("lock", "acquire", name, holder, "", repr(float(ttl)))
        return Lock(name, holder, fence, ttl) if fence else None

    def renew(self, name: str, holder: str, fence: int, ttl: float) -> bool:
        """Keep a lock."""
        check_ttl(ttl)
        return bool(self.run("lock", "renew", name, holder, fence, repr(float(ttl))))

    def release(self, name: str, holder: str | None = None, fence: int | None = None) -> bool:
        """Give a lock back."""
        held = (holder or "", "" if fence is None else fence)
        return bool(
            self.run("lock", "release", name, *held, "0", "0" if holder is not None else "1")
        )

    def locks(self) -> list[Lock]:
        """All locks held now."""
        found = [
            Lock(name.decode(), holder.decode(), fence, left / 1000)
            for name, holder, fence, left in self.run("locks")
        ]
        return sorted(found, key=lambda lock: lock.name)


def _pages(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH)]
