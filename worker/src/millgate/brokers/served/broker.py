"""A served broker as its users see it: every verb of the contract as one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Final

from millgate.brokers.base import (
    Ask,
    CancelState,
    Claimed,
    DeadLetter,
    Extended,
    Fenced,
    Lock,
    Peeked,
    State,
    TaskState,
)
from millgate.brokers.served import reports, values
from millgate.brokers.served.session import Session
from millgate.brokers.unanswered import Unanswered
from millgate.fleet import Beat, WorkerInfo, WorkerRef
from millgate.message import ClaimRef, Group, Message, Receipt
from millgate.queues import (
    Configuration,
    QueuePolicy,
    Subscription,
    TopicPolicy,
    policy_to_dict,
    queue_to_dict,
)
from millgate.rules import check
from millgate.settlement import Settlement
from millgate.stats import Stats

_WAITING: Final = (State.WAITING, State.DELAYED)


class ServedBroker:
    """One queue of a broker that a process serves. Safe to use from several threads, and in forked children.

    Whoever derives from it adds `setup` and `server`.
    """

    def __init__(self, session: Session) -> None:
        """Nothing is connected before the first verb."""
        self._session = session
        self._unanswered = Unanswered(lambda: token_hex(8))

    # --- preparing -------------------------------------------------------------------------------

    def configure(
        self,
        topics: Sequence[TopicPolicy],
        queue: QueuePolicy | None = None,
        *,
        replace: bool = False,
    ) -> int:
        """Store policies; the revision."""
        plain = [policy_to_dict(topic) for topic in topics]
        revision: int = self._session.call(
            "configure", plain, None if queue is None else queue_to_dict(queue), replace
        )
        return revision

    def configuration(self) -> Configuration:
        """What is stored."""
        return reports.to_configuration(self._session.call("configuration"))

    # --- producing -------------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        """Store messages, all or none."""
        for message in messages:
            check(message)
        plain = self._session.call(
            "publish", values.from_messages(messages), values.from_group(group)
        )
        return [Receipt(id_, duplicate) for id_, duplicate in plain]

    # --- working ---------------------------------------------------------------------------------

    def register(self, worker: WorkerRef, info: WorkerInfo) -> None:
        """Enter the registry."""
        self._session.call("register", values.from_worker(worker), values.from_info(info))

    def unregister(self, worker: WorkerRef) -> None:
        """Leave the registry."""
        self._session.call("unregister", values.from_worker(worker))

    def claim(self, worker: WorkerRef, ask: Ask, settlements: Sequence[Settlement] = ()) -> Claimed:
        """Settle, then claim."""
        settled = list(map(values.from_settlement, settlements))
        with self._unanswered.claim(worker) as (call, _):
            plain = self._session.call(
                "claim", values.from_worker(worker), values.from_ask(ask), settled, call
            )
        return values.to_claimed(plain)

    def settle(self, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        """Carry out settlements; the stale ids."""
        return tuple(self._session.call("settle", list(map(values.from_settlement, settlements))))

    def extend(self, worker: WorkerRef, claims: Sequence[ClaimRef], beat: Beat) -> Extended:
        """Renew the leases and the worker's row."""
        plain = self._session.call(
            "extend",
            values.from_worker(worker),
            list(map(values.from_ref, claims)),
            values.from_beat(beat),
        )
        return values.to_extended(plain)

    def progress(self, claim: ClaimRef, value: bytes) -> bool:
        """Store progress; False: the token is stale."""
        return bool(self._session.call("progress", values.from_ref(claim), value))

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        """Block until a claim is worth a try, or `interrupt`, or the timeout."""
        waker = self._session.waker
        if waker.rung():
            return True
        plain = values.from_subscription(subscription)
        answer = self._session.park("wait_for_work", plain, timeout=timeout, waker=waker)
        return bool(answer)

    def interrupt(self) -> None:
        """End a wait_for_work, the present or the next one."""
        self._session.waker.ring()

    # --- steering --------------------------------------------------------------------------------

    def fence(self, worker: str, ttl: float) -> Fenced:
        """Forbid a worker to claim."""
        return Fenced(*self._session.call("fence", worker, ttl))

    def unfence(self, worker: str) -> bool:
        """Lift a fence."""
        return bool(self._session.call("unfence", worker))

    def stats(self) -> Stats:
        """Topics and workers at one moment."""
        return reports.to_stats(self._session.call("stats"))

    def pause(self, topic: str, paused: bool) -> None:
        """Stop or resume claims from a topic."""
        self._session.call("pause", topic, paused)

    # --- looking up ------------------------------------------------------------------------------

    def states(self, ids: Sequence[str]) -> list[TaskState]:
        """What is known of each id."""
        return reports.to_states(self._session.call("states", list(ids)))

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        """Block until one of the ids is final, or the timeout."""
        if not ids:
            return []
        plain = self._session.park("wait", list(ids), timeout=timeout)
        return self.states(ids) if plain is None else reports.to_states(plain)

    def peek(self, topic: str, state: State, limit: int = 20) -> list[Peeked]:
        """Look at messages where they lie."""
        return reports.to_peeked(self._session.call("peek", topic, state, limit))

    # --- administration --------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str]) -> list[CancelState]:
        """Remove what has not started; signal what runs."""
        return list(map(CancelState, self._session.call("cancel", list(ids))))

    def requeue(self, ids: Sequence[str]) -> list[str]:
        """Take running messages from their holders."""
        return list(self._session.call("requeue", list(ids)))

    def purge(self, topic: str, states: Sequence[State] = _WAITING) -> int:
        """Remove a topic's messages in these states."""
        return int(self._session.call("purge", topic, list(states)))

    def dead(
        self, topic: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Dead letters, newest first."""
        plain = self._session.call("dead", topic, limit, after)
        return [letter for one in plain if (letter := reports.to_dead(one)) is not None]

    def dead_letter(self, id: str) -> DeadLetter | None:  # noqa: A002 -- the field's name everywhere
        """One dead letter, whole."""
        return reports.to_dead(self._session.call("dead_letter", id))

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Publish dead letters again."""
        return list(self._session.call("replay", list(ids)))

    def purge_dead(self, topic: str | None = None, ids: Sequence[str] | None = None) -> int:
        """Forget dead letters."""
        return int(self._session.call("purge_dead", topic, None if ids is None else list(ids)))

    # --- locks and schedules ---------------------------------------------------------------------

    def acquire(self, name: str, holder: str, ttl: float) -> Lock | None:
        """Take or renew a lock."""
        return reports.to_lock(self._session.call("acquire", name, holder, ttl))

    def renew(self, name: str, holder: str, fence: int, ttl: float) -> bool:
        """Keep a lock."""
        return bool(self._session.call("renew", name, holder, fence, ttl))

    def release(self, name: str, holder: str | None = None, fence: int | None = None) -> bool:
        """Give a lock back."""
        return bool(self._session.call("release", name, holder, fence))

    def locks(self) -> list[Lock]:
        """All locks held now."""
        return [Lock(*lock) for lock in self._session.call("locks")]

    def fire(self, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        """Publish for one slot of a schedule, once."""
        for message in messages:
            check(message)
        return bool(self._session.call("fire", schedule, slot, values.from_messages(messages)))

    def schedules(self) -> Mapping[str, float]:
        """The last slot that each schedule fired."""
        slots: dict[str, float] = self._session.call("schedules")
        return slots

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections; a wait_for_work in another thread returns."""
        self._session.close()
