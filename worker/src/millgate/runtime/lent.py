"""The broker as a task sees it: sending and looking up go through the supervisor, which holds the one connection.

A child imports no driver for this. What the supervisor does not lend (administration, a transaction of the task's
own) opens the real broker here, at the price of its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millgate.hints import TYPE_CHECKING, Any
from millgate.message import Group, Message, Receipt, pack
from millgate.rules import check
from millgate.runtime.link import Link

if TYPE_CHECKING:
    from millgate.brokers.base import Broker, CancelState, Lock, TaskState

#: Seconds of one wait at the supervisor; a longer one is a row of these.
_ONE_WAIT = 10.0


class Lent:
    """The verbs of a broker that a task needs; any other is looked for on the real one."""

    def __init__(self, link: Link, open_real: Callable[[], Broker]) -> None:
        self._link = link
        self._open_real = open_real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open_real(), name)

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        """As the contract says."""
        for message in messages:
            check(message)
        packed = [pack(message) for message in messages]
        receipts: list[Receipt] = _states().load_receipts(
            self._link.ask(0, "publish", packed, _states().dump_group(group))
        )
        return receipts

    def states(self, ids: Sequence[str]) -> list[TaskState]:
        """As the contract says."""
        load = _states().load_state
        return [load(fields) for fields in self._link.ask(0, "states", list(ids))]

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        """As the contract says; long waits are cut, which the contract allows for any wait."""
        answer = self._link.ask(0, "wait", list(ids), min(timeout, _ONE_WAIT))
        load = _states().load_state
        return [load(fields) for fields in answer]

    def cancel(self, ids: Sequence[str]) -> list[CancelState]:
        """As the contract says."""
        met: list[CancelState] = _states().load_cancels(self._link.ask(0, "cancel", list(ids)))
        return met

    def acquire(self, name: str, holder: str, ttl: float) -> Lock | None:
        """As the contract says."""
        lock: Lock | None = _states().load_lock(self._link.ask(0, "acquire", name, holder, ttl))
        return lock

    def renew(self, name: str, holder: str, fence: int, ttl: float) -> bool:
        """As the contract says."""
        return bool(self._link.ask(0, "renew", name, holder, fence, ttl))

    def release(self, name: str, holder: str | None = None, fence: int | None = None) -> bool:
        """As the contract says."""
        return bool(self._link.ask(0, "release", name, holder, fence))

    def close(self) -> None:
        """The supervisor's connection stays."""


def _states() -> Any:
    """Imported when first used: a child that sends nothing does not pay for it."""
    from millgate.runtime import states

    return states
