"""How a run looks: the lines that are redrawn while it goes on, and the tables at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from millgate.brokers.base import DeadLetter
from millgate.cli.output import Table, age, count, cut
from millgate.errors import BrokerError
from millgate.limits import format_bytes
from millgate.stats import TopicStats
from millgate_operator.dev.lane import Lane
from millgate_operator.dev.screen import Screen, bar
from millgate_operator.dev.tally import TopicTally

_LETTERS: Final = 10


def progress(lanes: Sequence[Lane], bars: bool) -> list[str]:
    """How things stand: a line for each queue and one for each of its topics."""
    return [line for lane in lanes for line in _progress(lane, bars)]


def summary(screen: Screen, lanes: Sequence[Lane], seconds: float, ask: bool = True) -> None:
    """What ran: topics, workers, the time it took, and, where the broker can be asked, dead letters."""
    screen.end()
    for lane in lanes:
        letters = _letters(lane) if ask else []
        tables = (
            topics_table(lane) if lane.tally.topics else None,
            workers_table(lane) if lane.tally.workers else None,
            letters_table(letters) if letters else None,
        )
        screen.raw(f"\n{lane.name}: {age(seconds)}")
        for table in filter(None, tables):
            screen.raw("\n" + screen.table(table))


def topics_table(lane: Lane) -> Table:
    """One row for each topic that had work."""
    titles = ("TOPIC", "LIMIT", "DONE", "FAILED", "LEFT", "WAIT P50", "WAIT P99")
    return Table(titles, [_topic_row(lane, name) for name in sorted(lane.tally.topics)])


def workers_table(lane: Lane) -> Table:
    """One row for each worker that there was."""
    titles = ("WORKER", "TASKS", "MEMORY PEAK", "RECYCLED", "STOPPED")
    rows = [
        (
            name,
            str(worker.tasks),
            "?" if worker.peak is None else format_bytes(worker.peak),
            str(worker.recycled),
            str(worker.stopped),
        )
        for name, worker in sorted(lane.tally.workers.items())
    ]
    return Table(titles, rows)


def letters_table(letters: Sequence[DeadLetter]) -> Table:
    """What was given up, and why."""
    rows = [
        (
            letter.topic,
            letter.message.task if letter.message else "?",
            letter.reason,
            _what(letter),
        )
        for letter in letters
    ]
    return Table(("DEAD LETTER", "TASK", "REASON", "WHAT HAPPENED"), rows)


def _what(letter: DeadLetter) -> str:
    if letter.failure is None:
        return "-"
    return cut(f"{letter.failure.error}: {letter.failure.message}".strip(": "), 80)


def _progress(lane: Lane, bars: bool) -> Iterator[str]:
    alive = sum(not worker.leaving for worker in lane.pool.workers.values())
    reason = f" ({lane.pool.decision.reason.value})" if lane.pool.decision else ""
    yield f"{lane.name}: {alive} worker{'' if alive == 1 else 's'}{reason}"
    if lane.stats is None:
        return
    width = max((len(name) for name in lane.stats.topics), default=0)
    for name, topic in sorted(lane.stats.topics.items()):
        tally = lane.tally.topics.get(name, TopicTally())
        line = bar(_ended(tally), _total(tally, topic)) + "  " if bars else ""
        failed = f", {tally.failed} failed" if tally.failed else ""
        delayed = f", {topic.delayed} delayed" if topic.delayed else ""
        yield (
            f"  {name:<{width}}  {line}{count(tally.done)} done{failed}, {count(topic.leased)} running,"
            f" {count(topic.waiting)} waiting{delayed}"
        )


def _ended(tally: TopicTally) -> int:
    return (tally.done or 0) + (tally.failed or 0)


def _total(tally: TopicTally, topic: TopicStats) -> int:
    return _ended(tally) + sum(n or 0 for n in (topic.waiting, topic.delayed, topic.leased))


def _topic_row(lane: Lane, name: str) -> tuple[str, ...]:
    tally = lane.tally.topics[name]
    topic = lane.stats.topics.get(name) if lane.stats else None
    limit = next((p.effective_limit for p in lane.policies if p.name == name), None)
    parts = (topic.waiting, topic.delayed, topic.leased) if topic else (None,)
    left = None if None in parts else sum(part or 0 for part in parts)
    return (
        name,
        "-" if limit is None else str(limit),
        count(tally.done),
        count(tally.failed),
        count(left),
        age(tally.waits.quantile(0.5)),
        age(tally.waits.quantile(0.99)),
    )


def _letters(lane: Lane) -> list[DeadLetter]:
    try:
        return lane.broker.dead(limit=_LETTERS)
    except BrokerError:
        return []
