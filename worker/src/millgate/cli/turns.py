"""Whose turn it is in a topic: which keys, or which order, hold back what waits, as the first of it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from millgate.brokers.base import Broker, Peeked, State
from millgate.cli.output import cut
from millgate.frozen import dataclass
from millgate.queues import Ordering, TopicPolicy

#: Messages of each state that are looked at: records may be large.
_FIRST: Final = 100
#: Keys that are named.
_NAMED: Final = 3
_WIDTH: Final = 40


@dataclass(frozen=True, slots=True)
class Turns:
    """The first messages of a topic in each state, in the order in which they would run."""

    waiting: tuple[Peeked, ...] = ()
    running: tuple[Peeked, ...] = ()
    delayed: tuple[Peeked, ...] = ()
    looked: bool = False

    def shows(self, id_: str | None) -> bool:
        """Whether it is seen what holds back this task, or the topic: the task may be one of the many behind."""
        found = id_ is None or not self.waiting or any(id_ == item.id for item in self.waiting)
        return self.looked and found


def turns_of(broker: Broker, policy: TopicPolicy) -> Turns:
    """What the broker shows of a topic; nothing of one where anything may start beside anything."""
    fifo = policy.ordering is Ordering.FIFO
    if not fifo and policy.effective_key_limit is None:
        return Turns()

    def look(state: State) -> tuple[Peeked, ...]:
        return tuple(broker.peek(policy.name, state, _FIRST))

    waiting = () if fifo else look(State.WAITING)
    running = () if fifo else look(State.RUNNING)
    sticky = policy.ordering is not Ordering.NONE  # a turn lasts until the task has ended for good
    return Turns(waiting, running, look(State.DELAYED) if sticky else (), looked=True)


def held_back(policy: TopicPolicy, turns: Turns, id_: str | None = None) -> Iterator[str]:
    """Why what waits has to wait for others of the topic: all of it, or only the task of that id."""
    if policy.ordering is Ordering.FIFO:
        retried = [item for item in turns.delayed if item.attempt > 0]
        if retried:
            yield (
                f"it is FIFO, and {retried[0].id}, whose turn it is, waits to be tried again"
                " (`millgate tasks` shows it)"
            )
        return
    held = _held(policy, turns)
    mine = [key for item, key in held if id_ in (None, item)]
    if mine:
        yield _told(policy, mine, one=id_ is not None)


def explains_all(policy: TopicPolicy, turns: Turns) -> bool:
    """Whether nothing of what was looked at could start, whatever else allows it."""
    return bool(turns.waiting) and len(_held(policy, turns)) == len(turns.waiting)


def _held(policy: TopicPolicy, turns: Turns) -> list[tuple[str, str]]:
    """Ids that have to wait for others of their key, and the keys."""
    limit = policy.effective_key_limit
    if limit is None:
        return []
    retried = (item for item in turns.delayed if item.attempt > 0)
    busy = Counter(key for item in (*turns.running, *retried) if (key := _key(item)) is not None)
    held = []
    for item in turns.waiting:
        key = _key(item)
        if key is None:
            continue
        if busy[key] >= limit:
            held.append((item.id, key))
        busy[key] += 1  # it comes before the next of its key
    return held


def _told(policy: TopicPolicy, held: list[str], *, one: bool) -> str:
    per_key = policy.ordering is Ordering.KEY
    of = "PerKey: one of {} at a time" if per_key else f"at most {policy.key_limit} of {{}} at once"
    if one:
        return f"{of.format(f'its key {_shown(held[0])}')}, and others of it come first"
    keys = list(dict.fromkeys(held))
    named = ", ".join(map(_shown, keys[:_NAMED])) + (", …" if len(keys) > _NAMED else "")
    return f"{of.format('a key')}, which holds back {len(held)} of those that wait (keys {named})"


def _key(item: Peeked) -> str | None:
    return None if item.message is None else item.message.key


def _shown(key: str) -> str:
    return cut(repr(key), _WIDTH)
