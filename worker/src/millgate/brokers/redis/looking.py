"""Looking: states, stats, peek, dead letters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgpack

from millgate.brokers.base import DeadLetter, Peeked, State, TaskState
from millgate.brokers.redis import failures, rows
from millgate.brokers.redis.working import Working
from millgate.errors import InvalidInput, NotDecodable
from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.rules import bounded
from millgate.stats import Stats, TopicStats

_PEEKED: Final = {State.WAITING: "W", State.DELAYED: "D", State.RUNNING: "R"}
_STATES: Final = {
    b"W": State.WAITING,
    b"D": State.DELAYED,
    b"R": State.RUNNING,
    b"S": State.SUCCEEDED,
    b"F": State.FAILED,
    b"C": State.CANCELLED,
}
PAGE: Final = 200  # topics that one call reads, and ids
_NOBODY: Final = ("", "0")


class Looking(Working):
    """The verbs that change nothing."""

    def states(self, ids: Sequence[str]) -> list[TaskState]:
        """What is known of each id, in order."""
        found: list[TaskState] = []
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            answers, forward = self.run("states", *_NOBODY, *page)
            found += map(task_state, page, answers)
            if forward:
                self.forward()
        return found

    def stats(self) -> Stats:
        """Topics and workers at one moment; more than 200 topics are read in pages, each at one moment."""
        topics: dict[str, TopicStats] = {}
        workers: tuple[WorkerRow, ...] = ()
        start, revision, due, forward = 1, 0, -1, False
        while start:
            revision, due, page, rows_, following, more = self.run("stats", start, PAGE)
            topics |= {row[0].decode(): _topic(row) for row in page}
            if start == 1:
                workers = tuple(_worker(row) for row in rows_)
            start, forward = following, bool(more)
        if forward:
            self.forward()
        workers = tuple(sorted(workers, key=lambda row: row.name))
        ordered = {name: topics[name] for name in sorted(topics)}
        return Stats(ordered, workers, revision, None if due < 0 else due / 1000)

    def peek(self, topic: str, state: State, limit: int = 20) -> list[Peeked]:
        """Look at messages in the order in which they would run."""
        if state not in _PEEKED:
            raise InvalidInput(
                f"cannot peek at {state!s} messages; ask for waiting, delayed or running, list the dead with `dead`"
            )
        if limit <= 0:
            return []
        found = {}
        following = b"0"
        while True:
            page, following = self.run("peek", topic, _PEEKED[state], bounded(limit), following)
            for name, data, counted, due, worker in page:
                peeked, rank = _peeked(topic, state, name, data, counted, worker)
                found[name] = (due, rank, peeked)
            if following == b"0":
                break
        ordered = sorted(found.values(), key=lambda entry: entry[:2])
        return [
            replace(peeked, due_in=None if due < 0 else due / 1000)
            for due, _, peeked in ordered[:limit]
        ]

    def dead(
        self, topic: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Dead letters, newest first."""
        if topic == "":  # which stands for all where it is sent
            return []
        return self._letters(topic or "", bounded(limit), after or "", "")

    def dead_letter(self, id: str) -> DeadLetter | None:  # noqa: A002 -- as in the protocol
        """One dead letter, whole."""
        found = self._letters("", 1, "", id) if id else []
        return found[0] if found else None

    def _letters(self, *arguments: Any) -> list[DeadLetter]:
        flat = self.run("dead", *arguments)
        return [
            _letter(name.decode(), data) for name, data in zip(flat[::2], flat[1::2], strict=True)
        ]


def task_state(name: str, answer: Any) -> TaskState:
    """The state of one id, as the script answers it."""
    if not answer:
        return TaskState(name)
    letter, topic, attempt, reason, failure, progress, kept, result, *worker = answer
    state = _STATES[letter]
    return TaskState(
        id=name,
        state=state,
        topic=topic.decode(),
        result=result if kept else None,
        failure=None if state is State.SUCCEEDED else failures.unpack(failure),
        reason=reason.decode(),
        progress=progress or None,
        attempt=attempt,
        worker=worker[0].decode() if worker else "",
    )


def _topic(row: list[Any]) -> TopicStats:
    return TopicStats(
        waiting=row[1],
        claimable=row[2],
        delayed=row[3],
        leased=row[4],
        dead=row[5],
        oldest=None if row[6] < 0 else row[6] / 1000,
        enqueued=int(row[7]),
        started=int(row[8]),
        completed=int(row[9]),
        failed=int(row[10]),
        declared=bool(row[11]),
        paused=bool(row[12]),
        dropped=int(row[13]),
    )


def _worker(row: list[Any]) -> WorkerRow:
    name, incarnation, info, beat, seen, leased, fence = row
    told, said = json.loads(info), json.loads(beat) if beat else {}
    return WorkerRow(
        name=name.decode(),
        incarnation=incarnation.decode(),
        state=WorkerState.ACTIVE if fence < 0 else WorkerState.FENCED,
        seen=seen / 1000,
        leased=leased,
        info=WorkerInfo(**{k: v for k, v in told.items() if k in WorkerInfo.__slots__}),
        beat=Beat(**{k: v for k, v in said.items() if k in Beat.__slots__}),
        fence_left=None if fence < 0 else fence / 1000,
    )


def _peeked(
    topic: str, state: State, name: bytes, data: bytes, counted: bytes, worker: bytes
) -> tuple[Peeked, float]:
    identity = name.decode()
    attempt = sum(rows.counts(counted)[:3]) + (state is State.RUNNING)
    try:
        row = rows.read(data)
    except NotDecodable:
        return Peeked(identity, topic, state, None), 0.0
    message = row.message(identity, topic)
    return Peeked(identity, topic, state, message, attempt, None, worker.decode()), row.rank


def _letter(name: str, data: bytes) -> DeadLetter:
    letter = msgpack.unpackb(data, raw=True)
    topic, reason, died, failure, failed, lost, interrupted, attempt, worker = letter[:9]
    raw, message = letter[12], None
    if not letter[11]:
        row = rows.read(raw)
        raw, message = row.record, row.message(name, topic.decode())
    return DeadLetter(
        id=name,
        topic=topic.decode(),
        reason=reason.decode(),
        died=died / 1000,
        message=message,
        failure=failures.unpack(failure),
        attempt=attempt,
        failures=failed,
        losses=lost,
        interruptions=interrupted,
        worker=worker.decode(),
        raw=b"" if message is not None else raw,
    )
