"""Makes runs of claims: decodes what must be known, and turns away what cannot run here. Used by the broker thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

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

if TYPE_CHECKING:
    from millgate.brokers.base import TaskState

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


#: A run, and the members whose states it is to be given.
Callback = tuple[Run, Sequence[str]]


class Received(NamedTuple):
    """What came of claims: runs that can start, and callbacks that cannot yet."""

    ready: list[Run]
    callbacks: list[Callback]


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

    def receive(self, claims: Sequence[Claim], revision: int) -> Received:
        """The runs to start, and those whose members are to be looked up first; all others are settled already.

        All are entered in the ledger before anything is asked: what it has is renewed, however long an answer takes. A
        broker that fails meanwhile costs no claim: what cannot be read is done without, or given back.
        """
        now = self._clock.monotonic()
        runs = [Run(claim, "", _NO_TERMS, arrived=now) for claim in claims]
        self._ledger.add(runs)
        self.follow(revision)
        found = Received([], [])
        for run in runs:
            try:
                name, options, gather = run.claim.head()
            except NotDecodable as error:
                failure = Failure("millgate.NotDecodable", str(error))
                self._verdict.turn_away(run, Rejected(failure, Reason.UNDECODABLE))
                continue
            run.task = name
            terms = self._usual.get((name, run.claim.topic)) if options is None else None
            terms = terms or self._resolved(run, options)
            if terms is None:
                continue
            run.terms = terms
            if gather:
                found.callbacks.append((run, gather))
            else:
                found.ready.append(run)
        return found

    def gather(self, callbacks: Sequence[Callback]) -> list[Run]:
        """The runs of callbacks with the states of their members. After the first that the broker does not answer it is
        not asked for the others: each question may take as long as a call may, and settlements wait here meanwhile."""
        runs = []
        answers = True
        for run, members in callbacks:
            if run.ended:  # cancelled, or lost, while others were looked up
                continue
            states: list[TaskState] | None = None
            if answers:
                try:
                    states = list(self._connection.broker.states(members))
                except BrokerError:
                    answers = False
            if states is None:
                self._verdict.give_back(run, _UNREAD)
            elif self._fits(run, states):
                run.arrived = self._clock.monotonic()  # only now may it wait for a child
                runs.append(run)
        return runs

    def follow(self, revision: int) -> None:
        """Have the policies of this revision from now on, if they can be read."""
        if revision != self._policies.revision:
            with suppress(BrokerError):  # the next answer names it again
                self._policies.refresh(self._connection.broker)
        known, tasks = (self._policies.revision, self.tasks), self._known[1]
        if known[0] != self._known[0] or known[1] is not tasks:
            self._known = known
            self._usual.clear()

    def _resolved(self, run: Run, options: Options | None) -> Terms | None:
        """What holds for the run; None: it cannot be made here, and has its settlement."""
        task = self.tasks.get(run.task)
        if task is None:
            self._note_unknown(run)
            outcome = unknown_task(run.task, run.claim.interruptions)
            self._verdict.turn_away(run, outcome)
            return None
        try:
            return self._terms_of(run.task, options, task, run.claim.topic)
        except InvalidInput as error:  # written by something else, or by another version
            failure = Failure("millgate.InvalidInput", f"its options: {error}")
            self._verdict.turn_away(run, Rejected(failure, Reason.UNDECODABLE))
            return None

    def _fits(self, run: Run, states: Sequence[TaskState]) -> bool:
        """Hand the states of its members to a callback; False: they are too much for it, and it has its settlement."""
        run.gathered = [dump_state(state) for state in states]
        try:
            wire.run_frames([wire.job(0, run.claim, run.gathered)])
        except wire.FrameTooLarge as error:
            text = f"the results of the members together: {error}; return references instead"
            failure = Failure("millgate.errors.PayloadTooLarge", text)
            self._verdict.finish(run, Rejected(failure, Reason.RESULT_REFUSED))
            return False
        return True

    def _terms_of(self, name: str, options: Options | None, task: TaskWire, topic: str) -> Terms:
        policy = self._policies.of(topic)
        if options is not None and not options.empty:
            return resolve(options, task, policy)
        terms = self._usual[name, topic] = resolve(Options(), task, policy)
        return terms

    def _note_unknown(self, run: Run) -> None:
        task = run.task
        self._metrics.add("millgate_unknown_tasks_total")
        if task not in self.unknown and len(self.unknown) < 100:
            self._verdict.unknown(run)
        if task in self.unknown or len(self.unknown) < 100:
            self.unknown[task] = self.unknown.get(task, 0) + 1
