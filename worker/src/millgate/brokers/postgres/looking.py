"""Looking: states, stats, messages where they lie, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from millgate.brokers.base import DeadLetter, Peeked, State, TaskState
from millgate.brokers.postgres import failures
from millgate.brokers.postgres.arrays import Texts
from millgate.brokers.postgres.session import Session
from millgate.errors import InvalidInput, NotDecodable
from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.message import Message, with_record
from millgate.rules import bounded
from millgate.stats import Stats, TopicStats

_PLACES: Final = {1: State.WAITING, 2: State.DELAYED, 3: State.RUNNING, 4: State.FAILED}
_ENDS: Final = {1: State.SUCCEEDED, 2: State.FAILED, 3: State.CANCELLED}
_PEEKED: Final = {State.WAITING: 1, State.DELAYED: 2, State.RUNNING: 3}
_INCARNATION: Final = 14  # column of `stats` from which on a row tells of a worker, not of a topic


class Looking(Session):
    """The verbs that change nothing."""

    def look(self, ids: Sequence[str], deadline: float) -> list[TaskState]:
        """What is known of each id, in order, within so many seconds."""
        found = {row[0]: row for row in self.rows("states", Texts(ids), deadline=deadline)}
        return [_state(name, found.get(n)) for n, name in enumerate(ids, 1)]

    def stats(self) -> Stats:
        """Topics and workers at one moment."""
        topics: dict[str, TopicStats] = {}
        workers: list[WorkerRow] = []
        *rows, queue = self.rows("stats")
        for row in rows:
            if row[_INCARNATION] is None:
                topics[row[0]] = TopicStats(*row[1:_INCARNATION])
            else:
                workers.append(_worker((row[0], *row[_INCARNATION:])))
        revision, next_due = queue[-2:]
        return Stats(topics, tuple(workers), revision, next_due)

    def peek(self, topic: str, state: State, limit: int = 20) -> list[Peeked]:
        """Look at messages in the order in which they would run."""
        if state not in _PEEKED:
            raise InvalidInput(
                f"cannot peek at {state!s} messages; ask for waiting, delayed or running, list the dead with `dead`"
            )
        rows = self.rows("peek", topic, _PEEKED[state], bounded(limit))
        return [
            Peeked(
                id=row[0],
                topic=topic,
                state=state,
                message=_message(topic, row[:7]),
                attempt=row[7],
                due_in=row[8],
                worker=row[9],
            )
            for row in rows
        ]

    def dead(
        self, topic: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Dead letters, newest first."""
        return [_letter(row) for row in self.rows("dead", topic, bounded(limit), after, None)]

    def dead_letter(self, id: str) -> DeadLetter | None:  # noqa: A002 -- as in the protocol
        """One dead letter, whole."""
        rows = self.rows("dead", None, 1, None, id)
        return _letter(rows[0]) if rows else None


def _state(name: str, row: tuple[Any, ...] | None) -> TaskState:
    if row is None:
        return TaskState(name)
    _, place, topic, ended, body, failure, reason, progress, attempt, worker = row
    return TaskState(
        id=name,
        state=_ENDS[ended] if ended is not None else _PLACES[place],
        topic=topic or "",
        result=body,
        failure=failures.unpack(failure),
        reason=reason or "",
        progress=progress,
        attempt=attempt,
        worker=worker or "" if place == 3 else "",
    )


def _worker(row: tuple[Any, ...]) -> WorkerRow:
    name, incarnation, seen, fence, leased, info, beat = row[:7]
    return WorkerRow(
        name=name,
        incarnation=incarnation,
        state=WorkerState.ACTIVE if fence is None else WorkerState.FENCED,
        seen=seen,
        leased=leased,
        info=WorkerInfo(**{k: v for k, v in info.items() if k in WorkerInfo.__slots__}),
        beat=Beat(**{k: v for k, v in beat.items() if k in Beat.__slots__}),
        fence_left=fence,
    )


def _message(topic: str, row: Sequence[Any]) -> Message | None:
    name, priority, key, unique, ttl, group, record = row
    bare = Message(
        id=name,
        topic=topic,
        task="",
        body=b"",
        priority=priority,
        key=key,
        unique=unique,
        result_ttl=ttl,
        group=group,
    )
    try:
        return with_record(bare, record)
    except NotDecodable:
        return None


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    name, topic, reason, died, attempt, failed, lost, interrupted, worker, failure = row[:10]
    message = _message(topic, (name, *row[10:16]))
    return DeadLetter(
        id=name,
        topic=topic,
        reason=reason,
        died=died,
        message=message,
        failure=failures.unpack(failure),
        attempt=attempt,
        failures=failed,
        losses=lost,
        interruptions=interrupted,
        worker=worker,
        raw=b"" if message is not None else row[15],
    )
