"""Groups: the ends of their members are counted, and the last one publishes the callback, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millgate.brokers.base import State
from millgate.brokers.core import dead, finish, publish, results
from millgate.brokers.core.store import Store
from millgate.errors import InvalidMessage
from millgate.message import Group, Message, Receipt
from millgate.outcome import Failure, Reason

_NAMED = 20  # failed members that a MemberFailed names


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
    )

    def __init__(self, group: Group, members: tuple[str, ...], callback: Message) -> None:
        self.id = group.id
        self.members = members
        self.callback = callback
        self.require_all = group.require_all
        self.pending = set(members)
        self.failed: set[str] = set()
        self.watches: list[str] = []
        self.buried = False


def check(store: Store, group: Group, messages: Sequence[Message]) -> None:
    """Raise InvalidMessage when a member is neither a message of this call nor a step of one's chain, or when
    another group has the id."""
    other = store.groups.get(group.id)
    if other is not None and other.callback.id != group.callback.id:
        raise InvalidMessage(
            f"group {group.id!r} exists with another callback; give this one an id of its own"
        )
    known = {step.id for message in messages for step in (message, *message.chain)}
    strange = [member for member in group.members if member not in known]
    if strange:
        raise InvalidMessage(
            f"group {group.id!r}: member {strange[0]!r} is not among the messages of this call; publish them together"
        )


def gather(
    store: Store, now: float, group: Group, messages: Sequence[Message], receipts: Sequence[Receipt]
) -> None:
    """Begin to wait for the members. One that was a duplicate is waited for under the id that it duplicates."""
    if group.id in store.groups or results.is_known(store, group.callback.id):
        return
    real = {message.id: receipt.id for message, receipt in zip(messages, receipts, strict=True)}
    members = tuple(real.get(member, member) for member in group.members)
    gathering = Gathering(group, members, replace(group.callback, gather=members))
    store.groups[group.id] = gathering
    _watch(store, gathering, messages, real)
    for member in members:
        if results.is_final(store, member):
            _note(gathering, member, results.states(store, [member])[0].state)
    _close_if_complete(store, now, gathering)


def member_ended(store: Store, now: float, task_id: str, state: State) -> None:
    """Tell the groups that wait for this message, or for a later step of its chain."""
    for name, member in tuple(store.watched.get(task_id, ())):
        gathering = store.groups.get(name)
        if gathering is None or (state is State.SUCCEEDED and task_id != member):
            continue
        _note(gathering, member, state)
        _close_if_complete(store, now, gathering)


def member_revived(store: Store, task_id: str) -> None:
    """A dead member is replayed: its groups wait for it again, and a buried callback is taken back."""
    for name, member in store.watched.get(task_id, ()):
        gathering = store.groups.get(name)
        if gathering is None:
            continue
        gathering.pending.add(member)
        gathering.failed.discard(member)
        if gathering.buried:
            gathering.buried = False
            store.callbacks.pop(gathering.callback.id, None)
            dead.take(store, gathering.callback.id)
            store.results.pop(gathering.callback.id)


def dead_letter_gone(store: Store, task_id: str) -> None:
    """A dead letter is no more: if it was the callback of a group, the group is over."""
    name = store.callbacks.get(task_id)
    if name is not None:
        forget(store, store.groups[name])


def forget(store: Store, gathering: Gathering) -> None:
    """Drop a group and everything that pointed to it."""
    del store.groups[gathering.id]
    store.callbacks.pop(gathering.callback.id, None)
    for task_id in gathering.watches:
        left = [entry for entry in store.watched.get(task_id, ()) if entry[0] != gathering.id]
        if left:
            store.watched[task_id] = left
        else:
            store.watched.pop(task_id, None)


def _watch(
    store: Store, gathering: Gathering, messages: Sequence[Message], real: Mapping[str, str]
) -> None:
    members = set(gathering.members)
    for message in messages:
        ids = [real[message.id], *(step.id for step in message.chain)]
        for position, member in enumerate(ids):
            if member not in members:
                continue
            for task_id in ids[: position + 1]:
                store.watched.setdefault(task_id, []).append((gathering.id, member))
                gathering.watches.append(task_id)


def _note(gathering: Gathering, member: str, state: State) -> None:
    gathering.pending.discard(member)
    if state is not State.SUCCEEDED:
        gathering.failed.add(member)


def _close_if_complete(store: Store, now: float, gathering: Gathering) -> None:
    if gathering.pending or gathering.buried:
        return
    callback = gathering.callback
    taken = results.is_known(store, callback.id)  # somebody published this id meanwhile
    if taken or not (gathering.failed and gathering.require_all):
        forget(store, gathering)
        publish.follow(store, now, [callback])
        return
    gathering.buried = True
    store.callbacks[callback.id] = gathering.id
    row = publish.unplaced(store, callback)
    failed = [member for member in gathering.members if member in gathering.failed]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    said = f"members of group {gathering.id!r} did not succeed: {', '.join(failed[:_NAMED])}{more}"
    row.failure = Failure("millgate.errors.TaskFailed", said)
    finish.bury(store, now, row, Reason.MEMBER_FAILED)
    if callback.id not in store.dead:
        forget(store, gathering)
