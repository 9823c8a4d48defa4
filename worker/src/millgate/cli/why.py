"""`millgate why`: says what keeps a topic or a task from running, from what the broker knows."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from millgate.brokers.base import Broker, State, TaskState
from millgate.cli.connection import add_broker, connected
from millgate.cli.output import Table, add_format, age, emit
from millgate.cli.topics import unknown
from millgate.errors import EXIT_FAILED, EXIT_OK
from millgate.fleet import WorkerRow, WorkerState
from millgate.queues import Configuration, Ordering, Subscription, TopicPolicy
from millgate.stats import Stats, TopicStats


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
        return topic_reasons(name, stats, configuration)
    (state,) = broker.states([name])
    return task_reasons(state, stats, configuration)


def task_reasons(state: TaskState, stats: Stats, configuration: Configuration) -> list[str]:
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
            return [f"it is not due yet{again}", *_strange(stats.workers)]
        case State.WAITING:
            return [
                f"it waits in topic {state.topic}",
                *topic_reasons(state.topic, stats, configuration),
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


def topic_reasons(name: str, stats: Stats, configuration: Configuration) -> list[str]:
    """Why a topic's waiting messages do not start, the strongest reason first."""
    topic = stats.topics.get(name, TopicStats())
    reasons = [
        *_stopped(name, topic, configuration),
        *(_strange(stats.workers) if topic.waiting or topic.delayed else ()),
        *_unserved(name, stats.workers),
        *_limited(name, topic, stats, configuration),
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
    if topic.paused or configuration.policy(name).paused:
        yield f"topic {name} is paused: millgate resume {name}, or `paused` in its manifest"


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


def _limited(
    name: str, topic: TopicStats, stats: Stats, configuration: Configuration
) -> Iterator[str]:
    policy, queue = configuration.policy(name), configuration.queue
    limit, leased = policy.effective_limit, topic.leased
    if limit is not None and leased is not None and leased >= limit:
        yield f"topic {name} runs {leased} of {limit} at once, its limit"
    total = sum(one.leased or 0 for one in stats.topics.values())
    if queue.limit is not None and total >= queue.limit:
        yield f"the queue runs {total} of {queue.limit} at once, its limit"
    # If so, nothing is claimable, whatever the rest allows.
    held = topic.paused or policy.paused or queue.suspended
    full = limit is not None and (leased or 0) >= limit
    if topic.waiting and topic.claimable == 0 and not held and not full:
        yield from _unclaimable(policy)
        free = None if queue.limit is None else queue.limit - total
        if free is not None and free > 0 and _reserved(name, stats, configuration) >= free:
            yield f"the {free} free of the queue's {queue.limit} are kept for other topics"


def _unclaimable(policy: TopicPolicy) -> Iterator[str]:
    """What may keep everything that waits in a topic from its start, though the topic's own limit has room."""
    if policy.rate is not None:
        yield f"its rate of {policy.rate} is used up for the moment"
    if policy.ordering is Ordering.FIFO:
        yield "it is FIFO, and the task whose turn it is waits to be tried again (`millgate tasks` shows it)"
    elif policy.ordering is Ordering.KEY:
        yield "it is PerKey, and the tasks whose turn it is run or wait to be tried again"
    elif policy.key_limit is not None:
        yield f"at most {policy.key_limit} of a key run at once, and these keys are busy"


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
