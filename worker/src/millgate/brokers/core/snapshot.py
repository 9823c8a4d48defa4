"""A whole queue as plain values and back: what a snapshot file holds. Lanes and gates are derived again, not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

from millgate.brokers.base import State
from millgate.brokers.core.lease import span_of
from millgate.brokers.core.place import restore
from millgate.brokers.core.rate import Bucket
from millgate.brokers.core.row import LEASED, Dead, Row, seq_of
from millgate.brokers.core.store import Ended, Gathering, Held, Store
from millgate.brokers.core.worker import Worker
from millgate.errors import NotDecodable
from millgate.fleet import Beat, WorkerInfo, WorkerRef
from millgate.message import Group, Message, pack, unpack
from millgate.outcome import Failure
from millgate.queues import (
    Configuration,
    policy_from_dict,
    policy_to_dict,
    queue_from_dict,
    queue_to_dict,
)

_FORMAT: Final = 1
#: The parts that grow with a backlog: lists.
LONG: Final = frozenset({"rows", "leases", "dead", "results"})
_PLAIN: Final = ("salt", "now", "seq", "serial", "grants")
_ROW: Final = (
    "attempt",
    "failures",
    "losses",
    "interruptions",
    "progress",
    "ready",
    "due",
    "until",
    "expires",
    "timed",
    "dated",
    "cancelled",
    "holds",
    "token",
)
_TOPIC: Final = ("held", "passed", "enqueued", "started", "completed", "failed", "dropped")


class Listing:
    """A list of which each item is made when its turn comes."""

    __slots__ = ("_count", "_make")

    def __init__(self, count: int, make: Callable[[], Iterator[Any]]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return self._make()


def dump(store: Store) -> dict[str, Any]:
    """Everything, as dicts, lists, texts, numbers and bytes."""
    return {name: list(part) if name in LONG else part for name, part in parts(store).items()}


def parts(store: Store) -> dict[str, Any]:
    """Everything, in the order in which `load` asks for it; those in LONG are a Listing each."""
    config = store.config
    return {
        "format": _FORMAT,
        "plain": [getattr(store, name) for name in _PLAIN],
        "vtime": list(store.vtime),
        "config": [
            config.revision,
            queue_to_dict(config.queue),
            [policy_to_dict(policy) for policy in config.topics.values()],
        ],
        "topics": {t.name: _dump_topic(t) for t in store.topics.values()},
        "workers": [_dump_worker(worker) for worker in store.workers.values()],
        "rows": Listing(len(store.rows) - store.leased, lambda: _rows(store)),
        "leases": Listing(store.leased, lambda: map(_dump_row, store.running())),
        "dead": Listing(len(store.dead), lambda: map(_dump_dead, store.dead.values())),
        "results": Listing(len(store.results), lambda: _results(store)),
        "recent": store.recent.dump(),
        "holders": dict(store.holders),
        "windows": [list(entry) for entry in store.windows.items()],
        "locks": [[name, h.holder, h.fence, until] for name, h, until in store.locks.items()],
        "slots": dict(store.slots),
        "groups": [_dump_group(gathering) for gathering in store.groups.values()],
        "watched": {
            task_id: [list(entry) for entry in found] for task_id, found in store.watched.items()
        },
        "callbacks": dict(store.callbacks),
    }


def load(value: Any) -> Store:
    """The queue that `dump` wrote. Raises NotDecodable for anything else."""
    try:
        format_ = value["format"]
    except (LookupError, TypeError):
        format_ = None
    if format_ != _FORMAT:
        raise NotDecodable("not the snapshot of a Millgate queue, or one of a newer format")
    store = Store()
    for name, plain in zip(_PLAIN, value["plain"], strict=True):
        setattr(store, name, plain)
    store.vtime = list(value["vtime"])
    _load_config(store, value["config"])
    for name, fields in value["topics"].items():
        _load_topic(store, name, fields)
    store.reconfigured()
    for fields in value["workers"]:
        worker = _load_worker(fields)
        store.workers[worker.name] = worker
    _load_rows(store, value)
    _load_dead(store, value["dead"])
    _load_memory(store, value)
    store.news.topics.update(store.active)
    return store


def _load_config(store: Store, value: Any) -> None:
    revision, queue, topics = value
    policies = [policy_from_dict(fields) for fields in topics]
    store.config = Configuration(
        revision, queue_from_dict(queue), {policy.name: policy for policy in policies}
    )


def _dump_topic(topic: Any) -> list[Any]:
    bucket = topic.bucket
    return [
        [getattr(topic, name) for name in _TOPIC],
        None if bucket is None else [bucket.tokens, bucket.at],
    ]


def _load_topic(store: Store, name: str, value: Any) -> None:
    topic = store.topic(name)
    plain, bucket = value
    for field, content in zip(_TOPIC, plain, strict=True):
        setattr(topic, field, content)
    topic.hold(topic.held)
    topic.bucket = None if bucket is None else Bucket(*bucket)


def _dump_worker(worker: Worker) -> list[Any]:
    return [
        worker.name,
        worker.incarnation,
        asdict(worker.info),
        asdict(worker.beat),
        worker.seen,
        worker.fence,
        worker.call,
        [list(pair) for pair in worker.memo],
    ]


def _load_worker(value: Any) -> Worker:
    name, incarnation, info, beat, seen, fence, call, memo = value
    worker = Worker(WorkerRef(name, incarnation), WorkerInfo(**info), seen)
    worker.beat = Beat(**beat)
    worker.fence, worker.call = fence, call
    worker.memo = tuple((task_id, token) for task_id, token in memo)
    return worker


def _dump_row(row: Row) -> list[Any]:
    worker = row.worker
    return [
        [row.id, row.topic.name, row.priority, row.key, row.unique, row.result_ttl, row.group],
        row.record,
        seq_of(row),
        row.where,
        [getattr(row, name) for name in _ROW],
        _dump_failure(row.failure),
        None if worker is None else [worker.name, worker.incarnation],
        None if row.span is None else row.span.length,
    ]


def _rows(store: Store) -> Iterator[list[Any]]:
    return (_dump_row(row) for row in store.rows.values() if row.where != LEASED)


def _load_row(store: Store, value: Any) -> Row:
    (
        (task_id, topic, priority, key, unique, result_ttl, group),
        record,
        seq,
        where,
        plain,
        failure,
    ) = value[:6]
    message = Message(
        id=task_id,
        topic=topic,
        task="",
        body=b"",
        priority=priority,
        key=key,
        unique=unique,
        result_ttl=result_ttl,
        group=group,
    )
    row = Row(message, store.topic(topic), record, seq)
    for name, content in zip(_ROW, plain, strict=True):
        setattr(row, name, content)
    row.where = where
    row.failure = None if failure is None else Failure(*failure)
    return row


def _load_rows(store: Store, value: Any) -> None:
    rows = [_load_row(store, fields) for fields in value["rows"]]
    gone: dict[tuple[str, str], Worker] = {}
    for fields in value["leases"]:
        _lease(store, _load_row(store, fields), fields[6], fields[7], gone)
    for row in rows:
        store.rows[row.id] = row
        if row.expires is not None:
            store.expiries.set(row.id, row, row.expires)
        if row.holds:
            _occupy(row)
    passed = {topic: topic.passed for topic in store.topics.values()}
    for row in sorted(rows, key=lambda row: (row.ready, row.rank)):  # so that ages stay in order
        restore(store, row)
    for topic, reached in passed.items():  # where a topic stands among others is as it was, too
        topic.passed = reached


def _dump_dead(dead: Dead) -> list[Any]:
    return [_dump_row(dead.row), str(dead.reason), dead.died, dead.worker, dead.no]


def _load_dead(store: Store, value: Any) -> None:
    for fields, reason, died, worker, no in value:
        dead = Dead(_load_row(store, fields), reason, died, worker)
        dead.no = no
        store.dead[dead.row.id] = dead.row.topic.dead[dead.row.id] = dead
    store.graves = 0.0


def _lease(
    store: Store, row: Row, holder: Any, length: float, gone: dict[tuple[str, str], Worker]
) -> None:
    name, incarnation = holder
    worker = store.workers.get(name)
    if worker is None or worker.incarnation != incarnation:  # an older start, forgotten since
        absent = Worker(WorkerRef(name, incarnation), WorkerInfo(), 0.0)
        worker = gone.setdefault((name, incarnation), absent)
    store.rows[row.id] = row
    row.worker, row.span = worker, span_of(store, length)
    row.span.rows[row.id] = row
    worker.leased += 1
    row.topic.leased += 1
    store.leased += 1
    if row.holds:
        _occupy(row)


def _occupy(row: Row) -> None:
    gate = row.gate = row.topic.gate_of(row)
    if gate is None:
        row.holds = False
    else:
        gate.busy += 1


def _results(store: Store) -> Iterator[list[Any]]:
    return ([task_id, _dump_ended(end), until] for task_id, end, until in store.results.items())


def _load_memory(store: Store, value: Any) -> None:
    for task_id, fields, until in value["results"]:
        store.results.set(task_id, _load_ended(fields), until)
    store.recent.load(value["recent"])
    store.holders = dict(value["holders"])
    for text, task_id, until in value["windows"]:
        store.windows.set(text, task_id, until)
    for name, holder, fence, until in value["locks"]:
        store.locks.set(name, Held(holder, fence), until)
    store.slots = dict(value["slots"])
    for fields in value["groups"]:
        gathering = _load_group(fields)
        store.groups[gathering.id] = gathering
    store.watched = {
        task_id: [(g, m) for g, m in found] for task_id, found in value["watched"].items()
    }
    store.callbacks = dict(value["callbacks"])


def _dump_failure(failure: Failure | None) -> list[str] | None:
    return None if failure is None else [failure.error, failure.message, failure.traceback]


def _dump_ended(ended: Ended) -> list[Any]:
    return [
        str(ended.state),
        ended.topic,
        ended.result,
        _dump_failure(ended.failure),
        str(ended.reason),
        ended.progress,
        ended.attempt,
    ]


def _load_ended(value: Any) -> Ended:
    state, topic, result, failure, reason, progress, attempt = value
    known = None if failure is None else Failure(*failure)
    return Ended(State(state), topic, result, known, reason, progress, attempt)


def _dump_group(gathering: Gathering) -> list[Any]:
    return [
        gathering.id,
        list(gathering.members),
        pack(gathering.callback),
        gathering.require_all,
        sorted(gathering.pending),
        sorted(gathering.failed),
        list(gathering.watches),
        gathering.buried,
        [list(way) for way in gathering.ways.values()],
    ]


def _load_group(value: Any) -> Gathering:
    task_id, members, callback, require_all, pending, failed, watches, buried, ways = value
    message = unpack(callback)
    gathering = Gathering(
        Group(task_id, tuple(members), message, require_all), tuple(members), message
    )
    gathering.pending, gathering.failed = set(pending), set(failed)
    gathering.watches, gathering.buried = list(watches), buried
    gathering.ways = {way[-1]: tuple(way) for way in ways}
    return gathering
