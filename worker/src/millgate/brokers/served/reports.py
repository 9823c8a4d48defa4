"""What the broker reports, as plain lists and back: statistics, states, dead letters, configuration, locks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from millgate.brokers.base import DeadLetter, Lock, Peeked, State, TaskState
from millgate.brokers.served import values
from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.message import Message, pack, unpack
from millgate.queues import (
    Configuration,
    policy_from_dict,
    policy_to_dict,
    queue_from_dict,
    queue_to_dict,
)
from millgate.stats import Stats, TopicStats

Plain = values.Plain

_STATE: Final = attrgetter(
    "id", "state", "topic", "result", "reason", "progress", "attempt", "worker"
)
_DEAD: Final = attrgetter(
    "id",
    "topic",
    "reason",
    "died",
    "attempt",
    "failures",
    "losses",
    "interruptions",
    "worker",
    "raw",
)
_PEEKED: Final = attrgetter("id", "topic", "state", "attempt", "due_in", "worker")
_TOPIC: Final = attrgetter(*TopicStats.__slots__)
_LOCK: Final = attrgetter("name", "holder", "fence", "left")

# --- the fleet -----------------------------------------------------------------------------------


def _from_row(row: WorkerRow) -> Plain:
    return [
        row.name,
        row.incarnation,
        row.state,
        row.seen,
        row.leased,
        values.from_info(row.info),
        values.from_beat(row.beat),
        row.fence_left,
    ]


def _to_row(plain: Plain) -> WorkerRow:
    name, incarnation, state, seen, leased, info, beat, fence_left = plain
    return WorkerRow(
        name,
        incarnation,
        WorkerState(state),
        seen,
        leased,
        WorkerInfo(*info),
        Beat(*beat),
        fence_left,
    )


def from_stats(stats: Stats) -> Plain:
    """Topics and workers."""
    topics = {name: list(_TOPIC(topic)) for name, topic in stats.topics.items()}
    return [topics, [_from_row(row) for row in stats.workers], stats.revision, stats.next_due]


def to_stats(plain: Plain) -> Stats:
    """What `from_stats` wrote."""
    topics, workers, revision, next_due = plain
    return Stats(
        {name: TopicStats(*topic) for name, topic in topics.items()},
        tuple(_to_row(row) for row in workers),
        revision,
        next_due,
    )


# --- configuration -------------------------------------------------------------------------------


def from_configuration(configuration: Configuration) -> Plain:
    """The revision, the queue's policy, the topics'."""
    topics = [policy_to_dict(policy) for policy in configuration.topics.values()]
    return [configuration.revision, queue_to_dict(configuration.queue), topics]


def to_configuration(plain: Plain) -> Configuration:
    """What `from_configuration` wrote."""
    revision, queue, topics = plain
    policies = [policy_from_dict(policy) for policy in topics]
    return Configuration(
        revision, queue_from_dict(queue), {policy.name: policy for policy in policies}
    )


# --- looking up ----------------------------------------------------------------------------------


def from_states(states: Sequence[TaskState]) -> Plain:
    """What is known of each id."""
    return [[*_STATE(state), values.from_failure(state.failure)] for state in states]


def to_states(plain: Plain) -> list[TaskState]:
    """What `from_states` wrote."""
    return [
        TaskState(
            id_,
            State(state),
            topic,
            result,
            values.to_failure(failure),
            reason,
            progress,
            attempt,
            worker,
        )
        for id_, state, topic, result, reason, progress, attempt, worker, failure in plain
    ]


def _from_whole(message: Message | None) -> bytes | None:
    return None if message is None else pack(message)


def _to_whole(data: bytes | None) -> Message | None:
    return None if data is None else unpack(data)


def from_peeked(peeked: Sequence[Peeked]) -> Plain:
    """Messages where they lie."""
    return [[*_PEEKED(one), _from_whole(one.message)] for one in peeked]


def to_peeked(plain: Plain) -> list[Peeked]:
    """What `from_peeked` wrote."""
    return [
        Peeked(id_, topic, State(state), _to_whole(message), attempt, due_in, worker)
        for id_, topic, state, attempt, due_in, worker, message in plain
    ]


def from_dead(letter: DeadLetter | None) -> Plain | None:
    """One dead letter, whole."""
    if letter is None:
        return None
    return [*_DEAD(letter), _from_whole(letter.message), values.from_failure(letter.failure)]


def to_dead(plain: Plain | None) -> DeadLetter | None:
    """What `from_dead` wrote."""
    if plain is None:
        return None
    id_, topic, reason, died, attempt, failures, losses, interruptions, worker, raw = plain[:10]
    message, failure = plain[10:]
    return DeadLetter(
        id_,
        topic,
        reason,
        died,
        _to_whole(message),
        values.to_failure(failure),
        attempt,
        failures,
        losses,
        interruptions,
        worker,
        raw,
    )


def from_lock(lock: Lock | None) -> Plain | None:
    """A lock held."""
    return None if lock is None else list(_LOCK(lock))


def to_lock(plain: Plain | None) -> Lock | None:
    """What `from_lock` wrote."""
    return None if plain is None else Lock(*plain)
