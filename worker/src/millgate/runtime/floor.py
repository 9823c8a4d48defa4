"""The io thread at work: what children say, what the broker thread brings, what the clock demands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from millgate.clock import Clock
from millgate.errors import NotDecodable
from millgate.outcome import Cancelled, Interrupted, Outcome, Raised, Reason, Returned
from millgate.runtime import wire
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.desk import Desk
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.estimate import Runtimes
from millgate.runtime.handle import Child, Phase
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.overtime import Overtime
from millgate.runtime.pool import Pool
from millgate.runtime.pulse import Pulse
from millgate.runtime.reactor import Reactor
from millgate.runtime.recycle import Because, over_files
from millgate.runtime.shutdown import Drain, Stage
from millgate.runtime.verdict import End, Verdict

_TICK: Final = 0.05  # seconds between two looks at the clock while something runs
_IDLE: Final = 0.5
_SOON: Final = 0.002  # until a second look at what a child keeps
#: A look for output costs microseconds; short tasks of a child that prints nothing are spared it.
_LONG_ENOUGH: Final = 0.005
_QUIET: Final = 64
#: Share of a lease after which a supervisor that has not moved its deadlines counts as frozen.
_FROZEN: Final = 0.8


class Floor:
    """Everything that happens to runs between their claim and their settlement."""

    def __init__(  # noqa: PLR0913 -- the composition root hands everything in
        self,
        reactor: Reactor,
        pool: Pool,
        dispatcher: Dispatcher,
        *,
        ledger: Ledger,
        verdict: Verdict,
        runtimes: Runtimes,
        overtime: Overtime,
        desk: Desk,
        pulse: Pulse,
        deadlines: Deadlines,
        clock: Clock,
    ) -> None:
        self.drain = Drain()
        self.on_target: Callable[[int], None] = lambda _target: None
        self._target = -1
        self._reactor = reactor
        self._pool = pool
        self._dispatcher = dispatcher
        self._ledger = ledger
        self._verdict = verdict
        self._runtimes = runtimes
        self._overtime = overtime
        self._desk = desk
        self._pulse = pulse
        self._deadlines = deadlines
        self._clock = clock
        self._given_back = False
        self._next_tick = 0.0
        pool.on_frame, pool.on_ends = self._frame, self._ends
        pool.on_gone = self._gone

    # --- the loop --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Wait for something, do it, look at the clock."""
        now = self._clock.monotonic()
        self._reactor.turn(max(0.0, min(self._next_tick - now, _IDLE)))
        now = self._clock.monotonic()
        self._hand_out(now)
        if now >= self._next_tick:
            self._tick(now)
        self._tell_target(now)

    def _tick(self, now: float) -> None:
        children = self._pool.children
        self._pulse.beat(self._ledger.shortest_lease())
        self._move_deadlines(now)
        self._pool.keep(now)
        kept = [child for child in list(children.values()) if child.collect()]
        soonest = self._overtime.look(list(children.values()), now)
        self._dispatcher.relieve(children.values(), now)
        self._hand_out(now)
        for run in self._dispatcher.late(children.values(), now):
            self._verdict.give_back(run)
        self._continue_drain(now)
        step = _IDLE if self._pool.idle and not len(self._dispatcher) else _TICK
        if self.drain.began is not None or any(
            child.phase is not Phase.READY for child in children.values()
        ):
            step = _TICK
        if kept:
            step = _SOON
        self._next_tick = now + min(step, max(0.002, soonest if soonest is not None else step))

    def _tell_target(self, now: float) -> None:
        target = (
            0
            if self.drain.began is not None
            else self._dispatcher.target(self._pool.children.values(), now)
        )
        if target != self._target:  # room that a settlement makes wakes the loop itself
            self._target = target
            self.on_target(target)

    def _hand_out(self, now: float) -> None:
        for child in self._dispatcher.hand_out(self._pool.children.values()):
            self._watch_over(child, now)  # at once: a freeze may come before the next tick

    def _move_deadlines(self, now: float) -> None:
        for child in self._pool.children.values():
            if child.runs and child.lease:
                self._watch_over(child, now)
            else:
                self._deadlines.clear(child.row)

    def _watch_over(self, child: Child, now: float) -> None:
        self._deadlines.set(child.row, child.pid, now + child.lease * _FROZEN)

    # --- what the broker thread brings -----------------------------------------------------------

    def start(self, runs: Iterable[Run]) -> None:
        """Claims that were made; after the signal to stop they go straight back."""
        if self.drain.began is not None:
            for run in runs:
                self._verdict.give_back(run)
            return
        # one that was cancelled or lost between its claim and here has had its end
        self._dispatcher.add(run for run in runs if not run.ended)
        self._next_tick = min(self._next_tick, self._clock.monotonic() + _TICK)

    def lost(self, runs: Sequence[Run]) -> None:
        """Leases that are another worker's: these runs are stopped and report nothing."""
        for run in runs:
            self._verdict.lost(run)
            self._remove(run, self._overtime.lost)

    def cancelled(self, runs: Sequence[Run]) -> None:
        """Runs that somebody cancelled."""
        for run in runs:
            if not run.ended and self._remove(run, self._overtime.cancel):
                self._verdict.finish(run, Cancelled())

    def _remove(self, run: Run, stop: Callable[[Child, int, Run], None]) -> bool:
        """Take a run out wherever it waits, or `stop` it where it runs; answers whether it was waiting."""
        if not run.seq:
            self._dispatcher.remove(run)
            return True
        for child in self._pool.children.values():
            if child.runs.get(run.seq) is not run:
                continue
            if run.seq > child.table.started:
                others = self._dispatcher.take_back(child)
                self._dispatcher.add_first([other for other in others if other is not run])
                if run in others:
                    return True
            if child.runs_now(run.seq):  # if not, it has ended, and its result is on the way
                stop(child, run.seq, run)
        return False

    # --- what children say -----------------------------------------------------------------------

    def _frame(self, child: Child, frame: list[Any]) -> None:
        match frame:
            case ["tell", seq, value]:
                run = child.runs.get(seq)
                if run is not None and not run.ended:
                    self._desk.progress(run.claim.ref, value)
            case ["ask", request, seq, verb, arguments]:
                self._ask(child, request, seq, verb, arguments)
            case _:
                child.kill(Because.BROKEN)

    def _ends(self, child: Child, frames: list[Any]) -> None:
        """Results of runs, in order."""
        self._hear(child, frames)
        ended: list[End] = []
        for _, seq, seconds, fields in frames:
            run = child.runs.get(seq)
            if run is None:
                continue
            try:
                outcome = wire.load_outcome(fields)
            except NotDecodable:
                child.kill(Because.BROKEN)
                break
            del child.runs[seq]
            ended.append((run, outcome, seconds))
        if not ended:
            return
        self._verdict.finish_all([end for end in ended if not end[0].ended])
        learn, locks = self._runtimes.learn, self._desk.holds_locks
        for run, outcome, seconds in ended:
            learn(run.task, seconds)
            if locks:
                self._desk.ended(run.seq)
            if type(outcome) is not Returned:
                self._look_at(child, outcome)
        self._pool.count(child, len(ended))
        self._pool.rest(child)

    def _look_at(self, child: Child, outcome: Outcome) -> None:
        """Whether this end of a run says something of its child."""
        if isinstance(outcome, Raised) and outcome.reason is Reason.MEMORY_EXCEEDED:
            self._pool.replace(child.key, Because.DATA_LIMIT)
            self._pool.hasten(child.key)  # it raised its own limit to be able to say so
            return
        failure = getattr(outcome, "failure", None)
        because = None if failure is None else over_files(failure)
        if because is not None:
            self._pool.replace(child.key, because)

    def _hear(self, child: Child, frames: list[Any]) -> None:
        """Take what these runs have printed, while their numbers still say whose output it is."""
        if child.quiet < _QUIET or any(
            seconds > _LONG_ENOUGH or kind == wire.SAID for kind, _, seconds, _ in frames
        ):
            child.read_output()
        if child.captures:
            child.end_output([seq for _, seq, _, _ in frames])
        child.quiet += len(frames)

    def _gone(self, child: Child) -> None:
        """Its process has ended, whatever it was about."""
        self._deadlines.clear(child.row)
        for seq in child.runs if self._desk.holds_locks else ():
            self._desk.ended(seq)

    def _ask(self, child: Child, request: int, seq: int, verb: str, arguments: list[Any]) -> None:
        def answer(ok: bool, value: Any) -> None:
            self._reactor.post(child.send, wire.answer_frame(request, ok, value))

        if verb == "acquire_lock" and seq not in child.runs:
            # a thread that the task has left behind: no end would come that gives the lock back
            answer(False, ["InvalidInput", "the task that asks for this lock has ended"])
            return
        self._desk.ask(seq, verb, arguments, answer)

    # --- the end ---------------------------------------------------------------------------------

    def begin_drain(self, timeout: float) -> None:
        """The signal to stop, or another one, which hurries."""
        now = self._clock.monotonic()
        if self.drain.began is not None:
            self.drain = self.drain.hurry(now)
        else:
            self.drain = Drain.begin(now, timeout)
            for run in self._dispatcher.clear():
                self._verdict.give_back(run)
            for child in self._pool.children.values():
                for run in self._dispatcher.take_back(child):
                    self._verdict.give_back(run)
            self._pool.retire_all()
        self._next_tick = now

    def _continue_drain(self, now: float) -> None:
        stage = self.drain.stage(now)
        if stage >= Stage.FINISHING:
            for run in self._dispatcher.clear():
                self._verdict.give_back(run)
        if stage is Stage.ASKING:
            for child in self._pool.children.values():
                for seq, run in child.started():
                    if not run.drained:
                        run.drained = True
                        self._overtime.expire(child, seq, run)
        if stage is Stage.GIVING_BACK and not self._given_back:
            self._given_back = True
            self._give_all_back()

    def _give_all_back(self) -> None:
        for child in list(self._pool.children.values()):
            for _, run in child.started():
                if not run.ended and run.stopping is None:
                    run.stopping = Because.DRAINED
                    self._verdict.finish(run, Interrupted())
            child.kill(Because.DRAINED)

    @property
    def finished(self) -> bool:
        """Whether a drain has nothing left to do: no child, and no outcome that the broker has not taken. It may be
        away for a moment just now, and a run whose outcome is lost is made again."""
        if self.drain.began is None:
            return False
        return (not self._pool.children and self._ledger.empty) or self.drain.over(
            self._clock.monotonic()
        )
