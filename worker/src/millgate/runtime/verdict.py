"""What is made of a run's end: the outcome as the supervisor sees it, its settlement, one log line, and the figures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

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
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.runtime.recycle import Because
from millgate.settlement import Ack, Bury, Drop, Later, Settlement, kept_for, settle

_MEMORY_ERROR: Final = "MemoryError"
_SOFT_TIMEOUT: Final = "SoftTimeout"
#: A run, how it ended, and how long it took.
End = tuple[Run, Outcome, float]
_SUCCEEDED: Final = "succeeded"
_TEXT: Final = 500  # characters of an error's message in a log line


def seen(run: Run, outcome: Outcome) -> Outcome:
    """The outcome that a child reported, with what only the supervisor knows. Pure."""
    match outcome:
        case Returned():
            return outcome  # whatever was asked of it, it has done its work
        case _ if run.stopping is Because.CANCELLED:
            return Cancelled()
        case Raised(failure) | RetryRequested(failure=failure) if run.drained and _is(
            failure, _SOFT_TIMEOUT
        ):
            return Interrupted()
        case Raised(failure, Reason.FAILED) if run.soft and _is(failure, _SOFT_TIMEOUT):
            return replace(outcome, reason=Reason.TIMED_OUT)
        case Raised(failure, Reason.FAILED) if _is(failure, _MEMORY_ERROR):
            return replace(outcome, reason=Reason.MEMORY_EXCEEDED)
    return outcome


def _is(failure: Failure, name: str) -> bool:
    return failure.error.rpartition(".")[2] == name


class Verdict:
    """Ends runs. Used by the io thread and the broker thread."""

    def __init__(self, ledger: Ledger, journal: Journal, metrics: Metrics) -> None:
        self._ledger = ledger
        self._journal = journal
        self._metrics = metrics
        self._mask = journal.mask
        self._says_all = journal.enabled("debug")

    def finish(self, run: Run, outcome: Outcome, seconds: float | None = None) -> None:
        """The run has ended so; `seconds` is how long it took, None when it did not run or nobody knows."""
        outcome = self._masked(outcome)
        settlement = _settle(run, outcome)
        self._metrics.ended(run, _word(outcome, settlement), seconds)
        self._log(run, outcome, settlement, seconds)
        self._ledger.settle(run, settlement)

    def turn_away(self, run: Run, outcome: Outcome) -> None:
        """The run cannot be made here. Its task's name is whatever the sender wrote: no metric is labelled with it."""
        outcome = self._masked(outcome)
        settlement = _settle(run, outcome)
        self._metrics.ended(replace(run, task=""), _word(outcome, settlement), None)
        self._log(run, outcome, settlement, None)
        self._ledger.settle(run, settlement)

    def lost(self, run: Run) -> None:
        """The run's lease is another worker's by now: whatever becomes of the run counts for nothing."""
        self._metrics.add("millgate_leases_lost_total")
        self._journal.say("warning", "lease was lost, the run is stopped", run)

    def finish_all(self, ends: Sequence[End]) -> None:
        """As `finish`, of runs that children reported together: what only the supervisor knows is added."""
        settled: list[tuple[Run, Settlement]] = []
        counted: list[tuple[Run, str, float | None]] = []
        for run, reported, seconds in ends:
            claim = run.claim
            # Nearly all: the same, with fewer questions.
            if type(reported) is Returned and not self._says_all:
                ttl = (
                    claim.result_ttl
                    if claim.group is None
                    else kept_for(claim, run.terms.result_ttl)
                )
                ack = Ack(claim.ref, reported.result, ttl, reported.publish)
                settled.append((run, ack))
                counted.append((run, _SUCCEEDED, seconds))
                continue
            outcome = self._masked(seen(run, reported))
            settlement = _settle(run, outcome)
            settled.append((run, settlement))
            counted.append((run, _word(outcome, settlement), seconds))
            self._log(run, outcome, settlement, seconds)
        self._metrics.ended_all(counted)
        self._ledger.settle_all(settled)

    def _masked(self, outcome: Outcome) -> Outcome:
        """The outcome as it may be told: a failure's texts go to the log, to dead letters and to whoever waits."""
        if not isinstance(outcome, Raised | RetryRequested | Rejected | Died):
            return outcome
        failure = self._mask.failure(outcome.failure)
        return outcome if failure is outcome.failure else replace(outcome, failure=failure)

    def give_back(self, run: Run, delay: float = 0.0) -> None:
        """The run did not start; nobody is charged."""
        self.finish(run, Interrupted(delay))

    def unknown(self, run: Run) -> None:
        """The app has no such task: misspelt, or of another version. Called once for each name."""
        self._journal.say("warning", "no such task in this app", run)

    def _log(
        self, run: Run, outcome: Outcome, settlement: Settlement, seconds: float | None
    ) -> None:
        if not self._says_all and type(settlement) is Ack:
            return
        level = _level(outcome, settlement)
        if not self._journal.enabled(level):
            return
        fields: dict[str, object] = {"waited": round(run.claim.age, 4)}
        if seconds is not None:
            fields["seconds"] = round(seconds, 6)
        failure = getattr(outcome, "failure", None)
        if failure is not None:
            fields |= {"error": failure.error, "message": failure.message[:_TEXT]}
        if isinstance(settlement, Later):
            fields |= {"delay": round(settlement.delay, 3), "charge": str(settlement.charge)}
        if isinstance(settlement, Bury):
            fields["reason"] = str(settlement.reason)
        if isinstance(settlement, Bury) and failure is not None:
            fields["traceback"] = failure.traceback
        self._journal.say(level, _event(settlement), run, **fields)


def _settle(run: Run, outcome: Outcome) -> Settlement:
    terms = run.terms
    return settle(run.claim, outcome, terms.retry, random.random(), terms.result_ttl)  # noqa: S311 -- spreads retries


def _level(outcome: Outcome, settlement: Settlement) -> str:
    match settlement:
        case Ack():
            return "debug"
        case Bury():
            return "error"
        case Later() if isinstance(outcome, Interrupted):
            return "info"
        case Later():
            return "warning"
    return "info"


def _event(settlement: Settlement) -> str:
    match settlement:
        case Ack():
            return "task succeeded"
        case Later():
            return "task goes back"
        case Bury():
            return "task buried"
        case Drop():
            return "task cancelled"


def _word(outcome: Outcome, settlement: Settlement) -> str:
    """The outcome in one word, for a metric's label."""
    match outcome:
        case Returned():
            return _SUCCEEDED
        case Interrupted():
            return "interrupted"
        case Cancelled():
            return "cancelled"
        case RetryRequested():
            return "buried" if isinstance(settlement, Bury) else "retried"
        case Rejected():
            return "buried"
        case Died(reason) | Raised(reason=reason):
            ended = "buried" if isinstance(settlement, Bury) else "failed"
            return ended if reason is Reason.FAILED else f"{ended}:{reason}"
