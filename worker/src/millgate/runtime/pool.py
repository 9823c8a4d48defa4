"""Keeps N children alive: starts, replaces, retires and buries them, each for a said reason. Used by the io thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from millgate.clock import Clock
from millgate.errors import EXIT_LIMITS, AppNotLoaded
from millgate.runtime import wire
from millgate.runtime.burial import Burial
from millgate.runtime.capture import Capture
from millgate.runtime.death import cause
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.handle import Child, Phase
from millgate.runtime.ledger import Run
from millgate.runtime.logs import Journal
from millgate.runtime.marks import Past
from millgate.runtime.memory import Memory
from millgate.runtime.preload import START_TIMEOUT, NotYet, TemplateEnded
from millgate.runtime.processes import describe_status, sweep
from millgate.runtime.reactor import Reactor
from millgate.runtime.recycle import Age, Because, Bounds, over_age
from millgate.runtime.spawn import Spawner
from millgate.runtime.tries import Tries

#: Seconds that a child has to end after it was told.
END_TIMEOUT: Final = 10.0
#: Replacements in a row, each after one task, at which the ceiling is said to be too low.
_FUTILE: Final = 5


class Pool:
    """The children. `fatal(code, message)` is called when the worker cannot go on."""

    def __init__(  # noqa: PLR0913 -- everything that a child's life touches, handed in
        self,
        wanted: int,
        bounds: Bounds,
        *,
        spawner: Spawner,
        hello: bytes,
        reactor: Reactor,
        dispatcher: Dispatcher,
        memory: Memory,
        burial: Burial,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self.children: dict[int, Child] = {}
        self.wanted = wanted
        self.fatal: Callable[[int, str], None] = lambda _code, _message: None
        self.on_frame: Callable[[Child, list[Any]], None] = lambda _child, _frame: None
        self.on_ends: Callable[[Child, list[Any]], None] = lambda _child, _frames: None
        self.on_gone: Callable[[Child], None] = lambda _child: None
        self.on_ready: Callable[[dict[str, Any]], None] = lambda _info: None
        self._bounds = bounds
        self._bounded = bounds != Bounds()
        self._spawner = spawner
        self._hello = hello
        self._reactor = reactor
        self._dispatcher = dispatcher
        self._memory = memory
        self._burial = burial
        self._journal = journal
        self._clock = clock
        self._keys = itertools.count()
        self._leaving: set[int] = set()  # READY, to be replaced as soon as a spare is
        self._futile = 0  # replacements in a row, each after one task
        self._tries = Tries(self._give_up, journal=journal, clock=clock)

    @property
    def app_known(self) -> bool:
        """Whether some child has imported the app."""
        return self._tries.app_known

    def _give_up(self, code: int, problem: str) -> None:
        self.fatal(code, problem)

    # --- starting --------------------------------------------------------------------------------

    def keep(self, now: float) -> None:
        """Start what is missing, retire whom a spare can replace, and end those that do not end."""
        self._retire_leaving()
        self._promote()
        for child in list(self.children.values()):
            if self._soon_done(child):
                self.replace(child.key, Because.MAX_TASKS)
        while self._missing() and self._tries.due(now) and self._place():
            if not self._start(now):
                break
        for child in list(self.children.values()):
            self._hurry(child, now)
            if child.phase is not Phase.ENDING and child.neglects(now):
                self._journal.say("error", "child takes up nothing", child=child.pid)
                child.kill(Because.BROKEN)
                child.phase, child.ending_at = Phase.ENDING, now
            if child.phase is Phase.RETIRING:
                self.rest(child)  # its last run may have been lost or cancelled before it started

    def _place(self) -> bool:
        """Whether another child may start now; where there is no room for both, first the one goes that it replaces."""
        if self._room():
            return True
        if not {child.phase for child in self.children.values()} & {Phase.STARTING, Phase.STANDBY}:
            self._retire_leaving(len(self._leaving))
        return False

    def _room(self) -> bool:
        """Whether one more child may be there: in a free place, or beside one that is to go if the pod has room."""
        coming = sum(child.phase is Phase.STARTING for child in self.children.values())
        return len(self.children) < self.wanted or self._memory.room_for_spare(coming)

    def _soon_done(self, child: Child) -> bool:
        """Whether a child will have done all its tasks by the time that a replacement is ready."""
        if child.left is None or child.phase is not Phase.READY or child.key in self._leaving:
            return False
        until = self._dispatcher.seconds_for(child.left)
        return until is not None and until < 2 * (child.ready_at - child.born) and self._room()

    def _missing(self) -> bool:
        coming = sum(
            child.phase in (Phase.STARTING, Phase.STANDBY)
            or (child.phase is Phase.READY and key not in self._leaving)
            for key, child in self.children.items()
        )
        return coming < self.wanted

    def _start(self, now: float) -> bool:
        try:
            spawned = self._spawner.start()
        except NotYet:
            return False
        except AppNotLoaded as error:
            self._tries.not_loaded(str(error))
            return False
        except TemplateEnded as error:
            self._tries.ended(str(error))
            return False
        except OSError as error:
            self._tries.refused(error, alone=not self.children)
            return False
        child = Child(next(self._keys), spawned, self._reactor, now)
        child.on_frames, child.on_end = self._frames, self._ended
        child.listen = lambda run: Capture(lambda line: self._printed(child, run, line))
        child.left = self._bounds.tasks or None
        taken = {other.row for other in self.children.values()}
        child.row = next(row for row in itertools.count() if row not in taken)
        self.children[child.key] = child
        self._memory.adopt(child)
        child.send(self._hello)
        self._journal.say("debug", "child started", child=child.pid)
        return True

    def _printed(self, child: Child, run: Run | Past | None, line: str) -> None:
        if run is None:  # nobody said whose it is
            run = next((run for _, run in reversed(child.started())), None)
        self._journal.say("info", "output", run, child=child.pid, text=line)

    def _frames(self, child: Child, frames: list[Any]) -> None:
        """Results that came together are taken together; all in their order."""
        ends: list[Any] = []
        for frame in frames:
            if type(frame) is list and len(frame) == 4 and frame[0] in wire.ENDS:
                ends.append(frame)
                continue
            if ends:
                self.on_ends(child, ends)
                ends = []
            self._frame(child, frame)
        if ends:
            self.on_ends(child, ends)

    def _frame(self, child: Child, frame: list[Any]) -> None:
        match frame:
            case ["ready", info]:
                self._ready(child, info)
            case ["failed", problem]:
                child.because = Because.NOT_READY
                self._tries.not_loaded(problem)
            case ["left", seq]:
                self._dispatcher.left(child, seq)
                self.rest(child)
            case _:
                self.on_frame(child, frame)

    def _ready(self, child: Child, info: dict[str, Any]) -> None:
        child.phase, child.ready_at = Phase.STANDBY, self._clock.monotonic()
        problem = self._memory.ready(child, self.wanted)
        if problem is not None and not self.app_known:
            self._give_up(EXIT_LIMITS, problem)
            return
        if problem is not None:
            self._journal.say("error", "ceiling too low", problem=problem)
        self._tries.succeeded()
        self.on_ready(info)
        took = round(child.ready_at - child.born, 3)
        self._journal.say("info", "child ready", child=child.pid, rss=child.baseline, seconds=took)
        self._retire_leaving()
        self._promote()

    # --- replacing -------------------------------------------------------------------------------

    def replace(self, key: int, because: Because) -> None:
        """Have a child replaced between two tasks, its replacement warm first if the pod has room for both."""
        child = self.children.get(key)
        if child is None or key in self._leaving or child.phase is not Phase.READY:
            return
        child.because = because
        self._leaving.add(key)
        self._note_futile(child, because)
        if not self._room():
            self._retire(child)

    def _note_futile(self, child: Child, because: Because) -> None:
        self._futile = self._futile + 1 if because is Because.MAX_RSS and child.tasks <= 1 else 0
        if self._futile == _FUTILE:
            self._journal.say(
                "error",
                "ceiling too low",
                problem="every child is over --max-rss after its first task; raise it",
                rss=child.size,
            )

    def _retire_leaving(self, beside: int = 0) -> None:
        """Retire the children that a standby can replace, and `beside` more. One that only nears its bound of tasks
        stays until it has done them all: the last that it was given are its own, begun or not."""
        standbys = beside + sum(child.phase is Phase.STANDBY for child in self.children.values())
        for key in sorted(self._leaving):
            child = self.children[key]
            done = child.because is not Because.MAX_TASKS or (child.left == 0 and not child.runs)
            if standbys and done and child.phase is Phase.READY:
                standbys -= 1
                self._retire(child)

    def _promote(self) -> None:
        """Give standbys the places that are free; a child that ends its last task still has its place."""
        working = sum(
            child.phase is Phase.READY or (child.phase is Phase.RETIRING and bool(child.runs))
            for child in self.children.values()
        )
        for child in self.children.values():
            if child.phase is Phase.STANDBY and working < self.wanted:
                child.phase = Phase.READY
                working += 1

    def _retire(self, child: Child) -> None:
        child.phase = Phase.RETIRING
        self._dispatcher.add_first(self._dispatcher.take_back(child))
        self.rest(child)

    def rest(self, child: Child) -> None:
        """A run of this child has ended: see whether the child is to go now."""
        if child.runs:
            return
        if child.phase is Phase.RETIRING:
            child.because = child.because or Because.DRAINED
            child.ask_to_end(self._clock.monotonic())
            self._promote()
            return
        child.lease = 0.0
        if child.left == 0 and child.phase is Phase.READY:
            self._leaving.add(child.key)
            child.because = child.because or Because.MAX_TASKS
            self._retire(child)

    def hasten(self, key: int) -> None:
        """A child that is to be replaced goes on growing: it goes now, before its replacement is ready."""
        child = self.children.get(key)
        if child is not None and child.phase is Phase.READY:
            self._leaving.add(key)
            self._retire(child)

    def count(self, child: Child, tasks: int) -> None:
        """A child has done so many more tasks."""
        child.tasks += tasks
        defunct = self._memory.defunct(child)
        if not defunct and not self._bounded:
            return
        age = Age(child.tasks, self._clock.monotonic() - child.ready_at, defunct)
        because = over_age(age, self._bounds)
        if because is not None:
            self.replace(child.key, because)

    def _hurry(self, child: Child, now: float) -> None:
        if child.phase is Phase.STARTING and now - child.born > START_TIMEOUT:
            child.kill(Because.NOT_READY)
            self._tries.ended(f"child {child.pid} was not ready in {START_TIMEOUT:.0f}s")
        elif child.phase is Phase.ENDING and now - child.ending_at > END_TIMEOUT:
            child.kill(child.because or Because.EXITED)

    def retire_all(self) -> None:
        """No more children: those that are idle end, the others after their present run."""
        self.wanted = 0
        for child in list(self.children.values()):
            if child.phase is Phase.STARTING:
                child.kill(Because.DRAINED)
            elif child.phase in (Phase.STANDBY, Phase.READY):
                self._retire(child)

    # --- the end of one --------------------------------------------------------------------------

    def _ended(self, child: Child) -> None:
        """Its process is gone: see to what it leaves behind, processes and runs, and when another one starts."""
        because_of_us, was_ready = child.because, child.ready_at > 0
        status = child.reap()
        del self.children[child.key]
        self.on_gone(child)
        self._leaving.discard(child.key)
        sweep({other.pid for other in self.children.values()} | self._spawner.helpers)
        child.end_output(list(child.captures))
        oom = self._memory.farewell(child)
        because = cause(because_of_us, status, oom=oom, limited=child.limited)
        self._burial.bury(child, because, status)
        child.close()
        if not was_ready and because not in (Because.DRAINED, Because.NOT_READY):
            self._unready(child, because, status)
        elif was_ready and child.tasks == 0 and because is Because.EXITED:
            self._tries.postpone()

    def _unready(self, child: Child, because: Because, status: int) -> None:
        """It ended before it was ready. Too little memory at start is the worker's end: another try changes nothing."""
        problem = self._memory.ceilings.check_start(because)
        if problem is not None and not self.app_known:
            self._give_up(EXIT_LIMITS, problem)
            return
        self._tries.ended(problem or f"child {child.pid} ended with {describe_status(status)}")

    # --- looking ---------------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """Runs in progress."""
        return sum(len(child.started()) for child in list(self.children.values()))

    @property
    def idle(self) -> bool:
        """Whether no child has anything to do."""
        return not any(child.runs for child in self.children.values())

    @property
    def ready(self) -> int:
        """Children that work."""
        return sum(child.phase is Phase.READY for child in list(self.children.values()))
