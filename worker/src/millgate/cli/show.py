"""`millgate show`: all that is known of single tasks, at once or when they have ended."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from millgate.brokers.base import Broker, State, TaskState
from millgate.cli.connection import add_broker, connected, duration
from millgate.cli.console import Console
from millgate.cli.harmless import lines
from millgate.cli.output import Table, add_format, age, brief, emit, payload
from millgate.clock import Clock
from millgate.errors import EXIT_FAILED, EXIT_OK

#: One blocking call lasts at most this long, so that it stays under the broker's deadline.
_SLICE = 5.0


def add(subparsers: Any) -> None:
    """Enter the command."""
    parser = subparsers.add_parser(
        "show",
        help="what is known of tasks",
        description="State, attempt, worker, progress, result and failure. Exit code 1 unless all succeeded (--wait) "
        "or are known.",
    )
    parser.add_argument("id", nargs="+")
    parser.add_argument(
        "--wait",
        nargs="?",
        type=duration,
        const=3600.0,
        metavar="TIME",
        help="until all have ended (1h unless TIME is given)",
    )
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    console: Console = args.console
    with connected(args) as broker:
        if args.wait is not None:
            states = wait_all(broker, console.clock, args.id, args.wait)
        else:
            states = broker.states(args.id)
    report(console, args.output, states)
    if args.wait is not None:
        remark_open(console, states, args.wait)
        return ended(states)
    return EXIT_FAILED if any(state.state is State.UNKNOWN for state in states) else EXIT_OK


def wait_all(broker: Broker, clock: Clock, ids: Sequence[str], timeout: float) -> list[TaskState]:
    """The states once all ids are final, or as they are after `timeout` seconds. Woken, not polling."""
    end = clock.monotonic() + timeout
    known = {state.id: state for state in broker.states(ids)}
    while True:
        open_ids = [name for name in ids if not known[name].state.final]
        left = end - clock.monotonic()
        if not open_ids or left <= 0:
            return [known[name] for name in ids]
        for state in broker.wait(open_ids, min(left, _SLICE)):
            known[state.id] = state


def ended(states: Sequence[TaskState]) -> int:
    """The exit code of a wait: 0 only when every task succeeded."""
    return EXIT_OK if all(state.state is State.SUCCEEDED for state in states) else EXIT_FAILED


def remark_open(console: Console, states: Sequence[TaskState], waited: float) -> None:
    """Say on standard error that tasks had not ended in time, and what tells why."""
    left = [
        state.id for state in states if not state.state.final and state.state is not State.UNKNOWN
    ]
    if left:
        console.say(
            f"millgate: {len(left)} of {len(states)} had not ended after {age(waited)};"
            f" to learn why: millgate why {left[0]}"
        )


def report(console: Console, how: str, states: Sequence[TaskState]) -> None:
    """Print task states; in a table with the traceback's tail below."""
    rows = [
        (
            state.id,
            state.state.value,
            state.topic or "-",
            str(state.attempt) if state.attempt else "-",
            state.worker or "-",
            _outcome(state),
        )
        for state in states
    ]
    table = Table(("ID", "STATE", "TOPIC", "ATTEMPT", "WORKER", "RESULT"), rows)
    emit(console, how, [_plain(state) for state in states], table)
    if how == "table":
        for state in states:
            if state.failure is not None and state.failure.traceback:
                console.print(f"\n{state.id}:\n{lines(state.failure.traceback)}")


def _outcome(state: TaskState) -> str:
    if state.failure is not None and state.state is not State.SUCCEEDED:
        reason = f"{state.reason}: " if state.reason else ""
        return f"{reason}{state.failure.error}: {state.failure.message}".strip(": ")
    if state.state is State.SUCCEEDED:
        return brief(state.result, 60)
    return state.reason or brief(state.progress, 60)


def _plain(state: TaskState) -> dict[str, Any]:
    return {
        "id": state.id,
        "state": state.state.value,
        "topic": state.topic or None,
        "attempt": state.attempt,
        "worker": state.worker or None,
        "result": payload(state.result),
        "progress": payload(state.progress),
        "reason": state.reason or None,
        "failure": state.failure,
    }
