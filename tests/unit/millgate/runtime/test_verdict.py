"""The outcome as the supervisor sees it, and one line about it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

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
from millgate.settlement import Ack, Bury, Charge, Later

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


class Told:
    """What one verdict about a run settles, counts and writes."""

    def __init__(
        self, say: Callable[[Verdict, Run], None], level: str = "debug", run: Run | None = None
    ) -> None:
        reading, writing = os.pipe()
        journal = Journal(SystemClock(), json_lines=True, level=level, descriptor=writing)
        ledger, metrics = Ledger(), Metrics()
        run = run or a_run()
        ledger.add([run])
        say(Verdict(ledger, journal, metrics), run)
        journal.close()
        os.close(writing)
        with os.fdopen(reading) as text:
            self.lines = [json.loads(line) for line in text]
        self.settlements = [entry.settlement for entry in ledger.take()]
        self.metrics = metrics.text()


def lines_of(
    outcome: Outcome, level: str = "debug", seconds: float | None = 1.5
) -> list[dict[str, object]]:
    return Told(lambda verdict, run: verdict.finish(run, outcome, seconds), level).lines


ENDS: list[tuple[Outcome, str]] = [
    (Returned(b"1"), "succeeded"),
    (Interrupted(2.0), "interrupted"),
    (Cancelled(), "cancelled"),
    (RetryRequested(1.0, OTHER), "retried"),
    (Rejected(OTHER), "buried"),
    (Raised(OTHER), "failed"),
    (Raised(OTHER, Reason.TIMED_OUT), "failed:TimedOut"),
    (Died(Reason.LOST, OTHER), "failed:Lost"),
]


@pytest.mark.parametrize(("outcome", "word"), ENDS, ids=[word for _, word in ENDS])
def test_each_end_is_counted_by_its_word(outcome: Outcome, word: str) -> None:
    told = Told(lambda verdict, run: verdict.finish(run, outcome, 1.5))
    count = f'millgate_tasks_total{{topic="video",task="cut",outcome="{word}"}} 1'
    assert count in told.metrics.splitlines()


@pytest.mark.parametrize("outcome", [Raised(OTHER, Reason.TIMED_OUT), Died(Reason.LOST, OTHER)])
def test_an_end_beyond_the_bounds_is_counted_as_a_burial(outcome: Outcome) -> None:
    claim = Claim("m1", "video", "token", b"", failures=9, losses=9)
    run = Run(claim, "cut", Terms(None, 60.0, RetryPolicy(attempts=3, losses=3), None))
    told = Told(lambda verdict, run: verdict.finish(run, outcome), run=run)
    assert f'outcome="buried:{outcome.reason}"}} 1' in told.metrics


@pytest.mark.parametrize("level", ["debug", "info"])
@pytest.mark.parametrize("group", [None, "g1"])
@pytest.mark.parametrize(("outcome", "word"), ENDS, ids=[word for _, word in ENDS])
def test_what_children_report_together_is_told_as_if_alone(
    outcome: Outcome, word: str, group: str | None, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    claim = Claim("m1", "video", "token", b"", attempt=2, failures=1, group=group, result_ttl=None)
    runs = [Run(claim, "cut", Terms(None, 60.0, RetryPolicy(attempts=3), 30.0)) for _ in range(2)]
    alone = Told(lambda verdict, run: verdict.finish(run, outcome, 1.5), level, runs[0])
    together = Told(lambda verdict, run: verdict.finish_all([(run, outcome, 1.5)]), level, runs[1])
    assert together.settlements == alone.settlements
    assert together.metrics == alone.metrics
    assert [line | {"time": 0} for line in together.lines] == [
        line | {"time": 0} for line in alone.lines
    ]


def test_a_run_that_cannot_be_made_here_is_counted_under_no_name() -> None:
    told = Told(lambda verdict, run: verdict.turn_away(run, Rejected(OTHER, Reason.BAD_ARGUMENTS)))
    assert 'task="",outcome="buried"} 1' in told.metrics
    assert "cut" not in told.metrics
    assert [(line["event"], line["reason"]) for line in told.lines] == [
        ("task buried", "BadArguments")
    ]
    assert [type(settlement) for settlement in told.settlements] == [Bury]


def test_a_lost_lease_is_counted_and_settles_nothing() -> None:
    told = Told(lambda verdict, run: verdict.lost(run))
    assert "millgate_leases_lost_total 1" in told.metrics.splitlines()
    assert [line["event"] for line in told.lines] == ["lease was lost, the run is stopped"]
    assert told.settlements == []


def test_what_did_not_start_goes_back_after_the_delay_at_nobodys_charge() -> None:
    [settlement] = Told(lambda verdict, run: verdict.give_back(run, 3.0)).settlements
    assert isinstance(settlement, Later)
    assert (settlement.delay, settlement.charge) == (3.0, Charge.NOTHING)


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
