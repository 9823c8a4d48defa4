"""Groups: who waits for whom, and what is known of the members. What comes of a complete group, `finish` sees to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from millgate.brokers.base import State
from millgate.brokers.core import results
from millgate.brokers.core.store import Gathering, Store
from millgate.errors import InvalidMessage
from millgate.message import Group, Message, Receipt
from millgate.outcome import Failure
from millgate.rules import check_group

_NAMED = 20  # failed members that a MemberFailed names


def check(store: Store, group: Group, messages: Sequence[Message]) -> None:
    """Raise InvalidMessage for a group that nobody may publish, or whose id another one has."""
    other = store.groups.get(group.id)
    if other is not None and other.callback.id != group.callback.id:
        raise InvalidMessage(
            f"group {group.id!r} exists with another callback; give this one an id of its own"
        )
    check_group(group, messages)


def gather(
    store: Store, group: Group, messages: Sequence[Message], receipts: Sequence[Receipt]
) -> Gathering | None:
    """Begin to wait for the members; None: this group has begun, or is over. A member that was a duplicate is waited
    for under the id that it duplicates."""
    if group.id in store.groups or results.is_known(store, group.callback.id):
        return None
    real = {message.id: receipt.id for message, receipt in zip(messages, receipts, strict=True)}
    members = tuple(real.get(member, member) for member in group.members)
    gathering = Gathering(group, members, replace(group.callback, gather=members))
    store.groups[group.id] = gathering
    _watch(store, gathering, messages, real)
    for member in members:
        known = results.is_final(store, member)
        _look(store, gathering, member, (member,) if known else _way(gathering, member))
    return gathering


def member_ended(store: Store, task_id: str, state: State) -> Iterator[Gathering]:
    """Note it in the groups that wait for this message, or for a later step of its chain; each is answered before the
    next is looked at, since what comes of one may end another. What follows one that succeeded is stored by then."""
    for name, member in tuple(store.watched.get(task_id, ())):
        gathering = store.groups.get(name)
        if gathering is None:
            continue
        way = _way(gathering, member)
        place = way.index(task_id) if task_id in way else len(way)
        if task_id == member:
            _note(gathering, member, state)
        elif any(step in store.rows for step in way[:place]):
            continue  # it is another's, and may be forgotten when this chain comes to it
        elif state is State.SUCCEEDED:
            _look(store, gathering, member, way[place + 1 :])
        else:
            _note(gathering, member, state)
        yield gathering


def member_revived(store: Store, task_id: str) -> list[str]:
    """A dead member is replayed: its groups wait for it again. Answers the buried callbacks, which are to come back."""
    buried = []
    for name, member in store.watched.get(task_id, ()):
        gathering = store.groups.get(name)
        if gathering is None:
            continue
        gathering.pending.add(member)
        gathering.failed.discard(member)
        if gathering.buried:
            gathering.buried = False
            store.callbacks.pop(gathering.callback.id, None)
            buried.append(gathering.callback.id)
    return buried


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


def failure_of(gathering: Gathering) -> Failure:
    """What a callback that is buried because of its members says."""
    members = dict.fromkeys(gathering.members)  # two that were one stand here twice
    failed = [member for member in members if member in gathering.failed]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    said = f"members of group {gathering.id!r} did not succeed: {', '.join(failed[:_NAMED])}{more}"
    return Failure("millgate.errors.TaskFailed", said)


def _watch(
    store: Store, gathering: Gathering, messages: Sequence[Message], real: Mapping[str, str]
) -> None:
    members = set(gathering.members)
    for message in messages:
        ids = list(dict.fromkeys([real[message.id], *(step.id for step in message.chain)]))
        for position, member in enumerate(ids):
            if member not in members:
                continue
            if position:
                gathering.ways.setdefault(member, tuple(ids[: position + 1]))
            for task_id in ids[: position + 1]:
                store.watched.setdefault(task_id, []).append((gathering.id, member))
                gathering.watches.append(task_id)


def _way(gathering: Gathering, member: str) -> tuple[str, ...]:
    """The steps of a chain up to a member, itself the last."""
    return gathering.ways.get(member, (member,))


def _look(store: Store, gathering: Gathering, member: str, way: Sequence[str]) -> None:
    """Note what is known of a member already, going along the rest of its way to the step that is under way.

    A step that was stored under its id before, or not at all since its text was taken, brings no other with it.
    """
    for task_id in way:
        if task_id in store.rows:
            return
        state = results.states(store, [task_id])[0].state
        if state is not State.SUCCEEDED or task_id == member:
            _note(gathering, member, state)
            return


def _note(gathering: Gathering, member: str, state: State) -> None:
    gathering.pending.discard(member)
    if state is not State.SUCCEEDED:
        gathering.failed.add(member)
