"""What a child leaves behind when its process is gone: runs that get their outcome or go to others, and a word why."""

from __future__ import annotations

from millgate.clock import Clock
from millgate.outcome import Interrupted
from millgate.runtime.death import outcome_of
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.handle import Child
from millgate.runtime.ledger import Run
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.runtime.processes import describe_status
from millgate.runtime.recycle import NEGLECTED, REPLACING, Because
from millgate.runtime.verdict import Verdict


class Burial:
    """Of any child, whatever ended it."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        verdict: Verdict,
        *,
        journal: Journal,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._dispatcher = dispatcher
        self._verdict = verdict
        self._journal = journal
        self._metrics = metrics
        self._clock = clock

    def bury(self, child: Child, because: Because, status: int) -> None:
        """Settle what it had begun, hand out again what it had not, and say why it ended."""
        self._settle_runs(child, because, status)
        self._report(child, because, status)

    def _settle_runs(self, child: Child, because: Because, status: int) -> None:
        mark = child.table.started
        unstarted: list[Run] = []
        for seq, run in child.runs.items():
            if seq > mark:
                unstarted.append(run)
            elif not run.ended:
                outcome = outcome_of(run.stopping, because, status)
                seconds = None
                if not isinstance(outcome, Interrupted):
                    seconds = self._clock.monotonic() - child.table.started_at(seq)
                self._verdict.finish(run, outcome, seconds)
        child.runs.clear()
        self._dispatcher.add_first(unstarted)

    def _report(self, child: Child, because: Because, status: int) -> None:
        self._metrics.add("millgate_recycles_total", reason=str(because))
        expected = because is Because.DRAINED or because in REPLACING - NEGLECTED
        self._journal.say(
            "info" if expected else "warning",
            "child ended",
            child=child.pid,
            reason=str(because),
            status=describe_status(status),
            rss=child.size,
            tasks=child.tasks,
        )
