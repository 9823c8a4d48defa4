"""TaskState, Receipt and Lock as plain values, for the frames between supervisor and child. Pure."""

from __future__ import annotations

from typing import Any

from millgate.brokers.base import CancelState, Lock, State, TaskState
from millgate.errors import NotDecodable
from millgate.message import Group, Receipt, pack, unpack
from millgate.outcome import Failure


def dump_state(state: TaskState) -> list[Any]:
    """Plain values of what is known of one message."""
    failure = state.failure
    return [
        state.id,
        str(state.state),
        state.topic,
        state.result,
        failure and [failure.error, failure.message, failure.traceback],
        state.reason,
        state.progress,
        state.attempt,
        state.worker,
    ]


def load_state(fields: list[Any]) -> TaskState:
    """What `dump_state` wrote. Raises NotDecodable."""
    try:
        id_, state, topic, result, failure, *rest = fields
        known = Failure(*failure) if failure else None
        return TaskState(id_, State(state), topic, result, known, *rest)
    except (TypeError, ValueError) as error:
        raise NotDecodable(f"not a state: {error}") from error


def dump_group(group: Group | None) -> list[Any] | None:
    """Plain values of a group."""
    if group is None:
        return None
    return [group.id, list(group.members), pack(group.callback), group.require_all]


def load_group(fields: list[Any] | None) -> Group | None:
    """What `dump_group` wrote."""
    if fields is None:
        return None
    id_, members, callback, require_all = fields
    return Group(id_, tuple(members), unpack(callback), require_all)


def dump_receipts(receipts: list[Receipt]) -> list[Any]:
    """Plain values of the answers to a publish."""
    return [[receipt.id, receipt.duplicate] for receipt in receipts]


def load_receipts(fields: list[Any]) -> list[Receipt]:
    """What `dump_receipts` wrote."""
    return [Receipt(*receipt) for receipt in fields]


def dump_lock(lock: Lock | None) -> list[Any] | None:
    """Plain values of a lock."""
    return None if lock is None else [lock.name, lock.holder, lock.fence, lock.left]


def load_lock(fields: list[Any] | None) -> Lock | None:
    """What `dump_lock` wrote."""
    return None if fields is None else Lock(*fields)


def load_cancels(words: list[str]) -> list[CancelState]:
    """What cancelling met."""
    return [CancelState(word) for word in words]
