"""The outcome as the supervisor sees it, and one line about it."""

from __future__ import annotations

import json
import os

import pytest

from millgate.clock import SystemClock
from millgate.message import Claim
from millgate.outcome import (
    Cancelled,
    Died,
    Failure,
    Interrupted,
    Outcome,
    Raised,
    Reason,
    Rejected,
    RetryRequested,
    Returned,
)
from millgate.retry import RetryPolicy
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.logs import Journal
from millgate.runtime.mask import Mask
from millgate.runtime.metrics import Metrics
from millgate.runtime.recycle import Because
from millgate.runtime.terms import Terms
from millgate.runtime.verdict import Verdict, seen
from millgate.settlement import Ack

SOFT = Failure("millgate.errors.SoftTimeout")
OTHER = Failure("builtins.ValueError", "no good", "Traceback …")


def a_run(**fields: object) -> Run:
    claim = Claim("m1", "video", "token", b"", attempt=2, failures=1)
    run = Run(claim, "cut", Terms(None, 60.0, RetryPolicy(attempts=3), None))
    for name, value in fields.items():
        setattr(run, name, value)
    return run


@pytest.mark.parametrize(
    ("fields", "outcome", "expected"),
    [
        ({}, Raised(OTHER), Raised(OTHER)),
        ({"drained": True}, Raised(SOFT, Reason.TIMED_OUT), Interrupted()),
        ({"drained": True}, RetryRequested(1.0, SOFT), Interrupted()),
        ({"drained": True}, Raised(OTHER), Raised(OTHER)),
        ({"drained": True}, Returned(b"1"), Returned(b"1")),
        ({"soft": True}, Raised(SOFT), Raised(SOFT, Reason.TIMED_OUT)),
        ({"stopping": Because.CANCELLED}, Raised(OTHER), Cancelled()),
        ({"stopping": Because.CANCELLED}, Returned(b"1"), Returned(b"1")),
        (
            {},
            Raised(Failure("builtins.MemoryError")),
            Raised(Failure("builtins.MemoryError"), Reason.MEMORY_EXCEEDED),
        ),
        ({}, Rejected(OTHER), Rejected(OTHER)),
    ],
)
def test_the_supervisor_knows_what_a_child_cannot(
    fields: dict[str, object], outcome: Outcome, expected: Outcome
) -> None:
    assert seen(a_run(**fields), outcome) == expected


def lines_of(
    outcome: Outcome, level: str = "debug", seconds: float | None = 1.5
) -> list[dict[str, object]]:
    reading, writing = os.pipe()
    journal = Journal(SystemClock(), json_lines=True, level=level, descriptor=writing)
    ledger, metrics = Ledger(), Metrics()
    run = a_run()
    ledger.add([run])
    Verdict(ledger, journal, metrics).finish(run, outcome, seconds)
    journal.close()
    os.close(writing)
    with os.fdopen(reading) as text:
        lines = [json.loads(line) for line in text]
    assert ledger.waiting == 1
    return lines


@pytest.mark.parametrize(
    ("outcome", "event", "level"),
    [
        (Returned(b"1"), "task succeeded", "debug"),
        (Raised(OTHER), "task goes back", "warning"),
        (Interrupted(), "task goes back", "info"),
        (Rejected(OTHER), "task buried", "error"),
        (Cancelled(), "task cancelled", "info"),
    ],
)
def test_each_end_is_one_line(outcome: Outcome, event: str, level: str) -> None:
    [line] = lines_of(outcome)
    assert (line["event"], line["level"]) == (event, level)
    assert (line["id"], line["task"], line["topic"], line["attempt"]) == ("m1", "cut", "video", 2)


def test_a_burial_has_its_reason_and_traceback() -> None:
    [line] = lines_of(Rejected(OTHER, Reason.BAD_ARGUMENTS), level="error")
    assert (line["reason"], line["traceback"]) == ("BadArguments", "Traceback …")


def test_what_is_below_the_level_is_not_written() -> None:
    assert lines_of(Returned(b"1"), level="info") == []


@pytest.mark.parametrize(("failures", "word"), [(0, "retried"), (2, "buried")])
def test_a_retry_beyond_the_last_attempt_is_counted_as_what_it_is(failures: int, word: str) -> None:
    claim = Claim("m1", "video", "token", b"", failures=failures)
    run = Run(claim, "cut", Terms(None, 60.0, RetryPolicy(attempts=3), None))
    ledger, metrics = Ledger(), Metrics()
    ledger.add([run])
    journal = Journal(
        SystemClock(), json_lines=True, level="error", descriptor=os.open(os.devnull, os.O_WRONLY)
    )
    Verdict(ledger, journal, metrics).finish(run, RetryRequested(1.0, OTHER), 0.1)
    journal.close()
    assert metrics.value("millgate_tasks_total", topic="video", task="cut", outcome=word) == 1


def test_what_is_reported_of_a_failure_has_no_password_and_a_result_is_its_tasks() -> None:
    ledger, metrics = Ledger(), Metrics()
    journal = Journal(
        SystemClock(),
        json_lines=True,
        level="error",
        descriptor=os.open(os.devnull, os.O_WRONLY),
        mask=Mask({"MILLGATE_BROKER": "redis://u:s3cret-word@h"}),
    )
    verdict = Verdict(ledger, journal, metrics)
    told = Failure("E", "s3cret-word", "redis://u:s3cret-word@h")
    outcomes: list[Outcome] = [
        Raised(told),
        RetryRequested(1.0, told),
        Rejected(told),
        Died(Reason.LOST, told),
        Returned(b'"s3cret-word"'),
    ]
    for outcome in outcomes:
        run = a_run()
        ledger.add([run])
        verdict.finish_all([(run, outcome, 1.0)])
        run = a_run()
        ledger.add([run])
        verdict.finish(run, outcome)
    journal.close()
    settlements = [entry.settlement for entry in ledger.take()]
    assert len(settlements) == 10
    for settlement in settlements:
        if isinstance(settlement, Ack):
            assert settlement.result == b'"s3cret-word"'
        else:
            assert getattr(settlement, "failure") == Failure("E", "***", "redis://u:***@h")  # noqa: B009 -- of two kinds
