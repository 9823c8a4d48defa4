"""Makes runs of claims: decodes what must be known, and turns away what cannot run here. Used by the broker thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from millgate.clock import Clock
from millgate.errors import BrokerError, InvalidInput, NotDecodable
from millgate.message import Claim, Options
from millgate.outcome import Failure, Interrupted, Outcome, Reason, Rejected
from millgate.retry import RetryPolicy
from millgate.runtime import wire
from millgate.runtime.connection import Connection
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.metrics import Metrics
from millgate.runtime.policies import Policies
from millgate.runtime.states import dump_state
from millgate.runtime.terms import Terms, resolve
from millgate.runtime.verdict import Verdict
from millgate.spec import TaskWire

#: Times that a message may be given back because nobody knows its task; with the waits between them, hours.
UNKNOWN_LIMIT: Final = 250
#: Seconds after which a callback whose members could not be read is tried again.
_UNREAD: Final = 1.0
_UNKNOWN_FIRST, _UNKNOWN_LONGEST = 1.0, 60.0
_NO_TERMS: Final = Terms(None, 0.0, RetryPolicy(), None)


def unknown_task(task: str, interruptions: int) -> Outcome:
    """What becomes of a message whose task this app does not have: another version may. Pure."""
    if interruptions >= UNKNOWN_LIMIT:
        failure = Failure("millgate.UnknownTask", f"no worker had a task {task!r} for hours")
        return Rejected(failure, Reason.UNKNOWN_TASK)
    return Interrupted(min(_UNKNOWN_LONGEST, _UNKNOWN_FIRST * 2.0 ** min(interruptions, 10)))


class Intake:
    """`tasks` is what the app has, by name; the io thread sets it when a child says so."""

    def __init__(
        self,
        connection: Connection,
        ledger: Ledger,
        policies: Policies,
        *,
        verdict: Verdict,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.tasks: Mapping[str, TaskWire] = {}
        self.unknown: dict[str, int] = {}  # names turned away and how often, for the status
        #: Revision and tasks that `_usual` was made from.
        self._known: tuple[int, object] = (-1, None)
        self._usual: dict[tuple[str, str], Terms] = {}  # of sends that set nothing themselves
        self._connection = connection
        self._ledger = ledger
        self._policies = policies
        self._verdict = verdict
        self._metrics = metrics
        self._clock = clock

    def receive(self, claims: Sequence[Claim], revision: int) -> list[Run]:
        """The runs to start, entered in the ledger; the others are settled already.

        A broker that fails meanwhile costs no claim its place in the ledger: what cannot be read is done without, or
        given back.
        """
        if revision != self._policies.revision:
            with suppress(BrokerError):  # the next claims ask again
                self._policies.refresh(self._connection.broker)
        known, tasks = (self._policies.revision, self.tasks), self._known[1]
        if known[0] != self._known[0] or known[1] is not tasks:
            self._known = known
            self._usual.clear()
        now = self._clock.monotonic()
        runs = []
        for claim in claims:
            run = self._receive(claim, now)
            if run is not None:
                runs.append(run)
        self._ledger.add(runs)
        return runs

    def _receive(self, claim: Claim, now: float) -> Run | None:
        try:
            name, options, gather = claim.head()
        except NotDecodable as error:
            failure = Failure("millgate.NotDecodable", str(error))
            self._turn_away(claim, "", Rejected(failure, Reason.UNDECODABLE), now)
            return None
        terms = None if options is not None else self._usual.get((name, claim.topic))
        if terms is None:
            task = self.tasks.get(name)
            if task is None:
                run = Run(claim, name, _NO_TERMS, None, now, now + claim.lease)
                self._note_unknown(run)
                self._turn_away(claim, name, unknown_task(name, claim.interruptions), now)
                return None
            try:
                terms = self._terms_of(name, options, task, claim.topic)
            except InvalidInput as error:  # written by something else, or by another version
                failure = Failure("millgate.InvalidInput", f"its options: {error}")
                self._turn_away(claim, name, Rejected(failure, Reason.UNDECODABLE), now)
                return None
        run = Run(claim, name, terms, None, now, now + claim.lease)
        return self._gathered(run, gather) if gather else run

    def _gathered(self, run: Run, gather: Sequence[str]) -> Run | None:
        try:
            states = self._connection.broker.states(gather)
        except BrokerError:
            self._ledger.add([run])
            self._verdict.give_back(run, _UNREAD)
            return None
        run.gathered = [dump_state(state) for state in states]
        try:
            wire.run_frames([wire.job(0, run.claim, run.gathered)])
        except wire.FrameTooLarge as error:
            text = f"the results of the members together: {error}; return references instead"
            failure = Failure("millgate.errors.PayloadTooLarge", text)
            self._ledger.add([run])
            self._verdict.finish(run, Rejected(failure, Reason.RESULT_REFUSED))
            return None
        return run

    def _terms_of(self, name: str, options: Options | None, task: TaskWire, topic: str) -> Terms:
        policy = self._policies.of(topic)
        if options is not None and not options.empty:
            return resolve(options, task, policy)
        terms = self._usual[name, topic] = resolve(Options(), task, policy)
        return terms

    def _turn_away(self, claim: Claim, task: str, outcome: Outcome, now: float) -> None:
        run = Run(claim, task, _NO_TERMS, arrived=now, expires=now + claim.lease)
        self._ledger.add([run])
        self._verdict.turn_away(run, outcome)

    def _note_unknown(self, run: Run) -> None:
        task = run.task
        self._metrics.add("millgate_unknown_tasks_total")
        if task not in self.unknown and len(self.unknown) < 100:
            self._verdict.unknown(run)
        if task in self.unknown or len(self.unknown) < 100:
            self.unknown[task] = self.unknown.get(task, 0) + 1
