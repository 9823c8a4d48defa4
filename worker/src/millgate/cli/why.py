"""`millgate why`: says what keeps a topic or a task from running, from what the broker knows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from millgate.brokers.base import Broker, State, TaskState
from millgate.cli.connection import add_broker, connected
from millgate.cli.output import Table, add_format, age, emit
from millgate.cli.topics import unknown
from millgate.cli.turns import Turns, explains_all, held_back, turns_of
from millgate.errors import EXIT_FAILED, EXIT_OK
from millgate.fleet import WorkerRow, WorkerState
from millgate.queues import Configuration, Ordering, Subscription, TopicPolicy
from millgate.stats import Stats, TopicStats

#: Nobody has looked.
_UNSEEN: Final = Turns()


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "why",
        help="why a topic or a task does not run",
        description="Names every reason that holds now, the strongest first. Exit code 1 when nothing is known.",
    )
    parser.add_argument("name", help="a topic or a task's id")
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        reasons = reasons_of(broker, args.name)
        known = () if reasons else broker.stats().topics
    if not reasons:
        args.console.say(f"millgate: error: {unknown('topic or task', args.name, known)}")
    value = {"name": args.name, "reasons": reasons}
    if reasons or args.output != "table":
        emit(args.console, args.output, value, Table(("WHY",), [(reason,) for reason in reasons]))
    return EXIT_OK if reasons else EXIT_FAILED


def reasons_of(broker: Broker, name: str) -> list[str]:
    """What is known of a topic, or else of a task of that id; empty: nothing."""
    stats, configuration = broker.stats(), broker.configuration()
    if name in stats.topics:
        turns = turns_of(broker, configuration.policy(name))
        return topic_reasons(name, stats, configuration, turns)
    (state,) = broker.states([name])
    waits = state.state is State.WAITING
    turns = turns_of(broker, configuration.policy(state.topic)) if waits else Turns()
    return task_reasons(state, stats, configuration, turns)


def task_reasons(
    state: TaskState, stats: Stats, configuration: Configuration, turns: Turns = _UNSEEN
) -> list[str]:
    """Why a task is where it is."""
    match state.state:
        case State.UNKNOWN:
            return []
        case State.RUNNING:
            return [f"it runs, attempt {state.attempt}, on {state.worker or 'a worker'}"]
        case State.DELAYED:
            again = (
                f" after attempt {state.attempt} failed: {state.failure.error}"
                if state.failure
                else ""
            )
            topic = stats.topics.get(state.topic, TopicStats())
            return [
                f"it is not due yet{again}",
                *_stopped(state.topic, topic, configuration),
                *_strange(stats.workers),
            ]
        case State.WAITING:
            return [
                f"it waits in topic {state.topic}",
                *topic_reasons(state.topic, stats, configuration, turns, state.id),
            ]
        case State.FAILED:
            return [_failed(state)]
        case _:
            detail = f": {state.reason}" if state.reason else ""
            return [f"it has ended: {state.state.value}{detail}"]


def _failed(state: TaskState) -> str:
    failure = state.failure
    said = f": {failure.error}: {failure.message}".rstrip(": ") if failure is not None else ""
    return (
        f"it has ended: failed: {state.reason or 'Failed'}{said} (as long as it is kept,"
        f" `millgate dead show {state.id}` shows all, `millgate dead replay {state.id}` runs it again)"
    )


def topic_reasons(
    name: str,
    stats: Stats,
    configuration: Configuration,
    turns: Turns = _UNSEEN,
    id_: str | None = None,
) -> list[str]:
    """Why a topic's waiting messages do not start, the strongest reason first; with an id, why that task does not."""
    topic = stats.topics.get(name, TopicStats())
    policy = configuration.policy(name)
    reasons = [
        *_stopped(name, topic, configuration),
        *(_strange(stats.workers) if topic.waiting or topic.delayed else ()),
        *_unserved(name, stats.workers),
        *_full(name, topic, stats, configuration),
        *held_back(policy, turns, id_),
        *(() if turns.shows(id_) else _guessed(topic, policy, configuration)),
        *(() if explains_all(policy, turns) else _rated(topic, policy, configuration)),
        *_kept(name, topic, stats, configuration),
    ]
    if topic.waiting == 0:
        verb = "is" if topic.delayed == 1 else "are"
        delayed = f"; {topic.delayed} {verb} not due yet" if topic.delayed else ""
        reasons.append(f"nothing waits in topic {name}{delayed}")
    if not reasons:
        reasons.append(_moving(topic, stats))
    return reasons


def _stopped(name: str, topic: TopicStats, configuration: Configuration) -> Iterator[str]:
    if configuration.queue.suspended:
        yield "the queue is suspended: nothing is claimed"
    if configuration.policy(name).paused:  # `millgate resume` would change nothing
        yield f"topic {name} is paused by its policy: `paused` in its manifest"
    elif topic.paused:
        yield f"topic {name} is paused: millgate resume {name}"


def _unserved(name: str, workers: tuple[WorkerRow, ...]) -> Iterator[str]:
    if not workers:
        yield "no worker is registered"
        return
    serving = [row for row in workers if _serves(row, name)]
    if not serving:
        yield f"none of the {len(workers)} workers takes topic {name}"
    elif all(row.state is not WorkerState.ACTIVE or row.beat.draining for row in serving):
        yield f"all {len(serving)} workers that take topic {name} are fenced or draining"
    elif all(max(row.leased, row.beat.busy) >= row.info.slots for row in serving):
        yield f"all slots of the {len(serving)} workers that take topic {name} are busy"


def _strange(workers: tuple[WorkerRow, ...]) -> Iterator[str]:
    for row in workers:
        names = row.beat.detail.get("unknown")
        if isinstance(names, Mapping) and names:
            yield (
                f"{row.name} gives tasks back that its app does not have: {', '.join(sorted(map(str, names)))};"
                " is the name right, and the app the newest?"
            )


def _full(
    name: str, topic: TopicStats, stats: Stats, configuration: Configuration
) -> Iterator[str]:
    queue = configuration.queue
    if _at_limit(topic, configuration.policy(name)):
        limit = configuration.policy(name).effective_limit
        yield f"topic {name} runs {topic.leased} of {limit} at once, its limit"
    total = _running(stats)
    if queue.limit is not None and total >= queue.limit:
        yield f"the queue runs {total} of {queue.limit} at once, its limit"


def _guessed(topic: TopicStats, policy: TopicPolicy, configuration: Configuration) -> Iterator[str]:
    """Which order keeps everything that waits in a topic from its start, where that could not be seen."""
    if not _stands(topic, policy, configuration):
        return
    if policy.ordering is Ordering.FIFO:
        yield "it is FIFO, and the task whose turn it is waits to be tried again (`millgate tasks` shows it)"
    elif policy.ordering is Ordering.KEY:
        yield "it is PerKey, and the tasks whose turn it is run or wait to be tried again"
    elif policy.key_limit is not None:
        yield f"at most {policy.key_limit} of a key run at once, and these keys are busy"


def _rated(topic: TopicStats, policy: TopicPolicy, configuration: Configuration) -> Iterator[str]:
    if policy.rate is not None and _stands(topic, policy, configuration):
        yield f"its rate of {policy.rate} is used up for the moment"


def _stands(topic: TopicStats, policy: TopicPolicy, configuration: Configuration) -> bool:
    """Whether nothing of a topic is claimable that may be: of one that is stopped or full nothing ever is."""
    stopped = topic.paused or policy.paused or configuration.queue.suspended
    nothing = bool(topic.waiting) and topic.claimable == 0
    return nothing and not stopped and not _at_limit(topic, policy)


def _kept(
    name: str, topic: TopicStats, stats: Stats, configuration: Configuration
) -> Iterator[str]:
    """Slots that are free, and not for this topic."""
    limit = configuration.queue.limit
    if limit is None or not topic.waiting or topic.claimable != 0:
        return
    free = limit - _running(stats)
    if free > 0 and _reserved(name, stats, configuration) >= free:
        yield f"the {free} free of the queue's {limit} are kept for other topics"


def _at_limit(topic: TopicStats, policy: TopicPolicy) -> bool:
    limit = policy.effective_limit
    return limit is not None and (topic.leased or 0) >= limit


def _running(stats: Stats) -> int:
    return sum(one.leased or 0 for one in stats.topics.values())


def _reserved(name: str, stats: Stats, configuration: Configuration) -> int:
    """Slots that are kept for other topics and not in use."""
    return sum(
        max(0, policy.reserve - (stats.topics.get(other, TopicStats()).leased or 0))
        for other, policy in configuration.topics.items()
        if other != name
    )


def _moving(topic: TopicStats, stats: Stats) -> str:
    waiting = "?" if topic.waiting is None else topic.waiting
    oldest = f", the oldest for {age(topic.oldest)}" if topic.oldest is not None else ""
    return f"nothing holds it: {waiting} wait{oldest}, and {len(stats.workers)} workers claim"


def _serves(row: WorkerRow, topic: str) -> bool:
    include, _, exclude = row.info.topics.partition(" without ")  # as a worker words it
    without = tuple(exclude.split(",")) if exclude else ()
    return Subscription(include=tuple(include.split(",")), exclude=without).matches(topic)
