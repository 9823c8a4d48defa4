"""One run of `millgate dev`: broker up, policies in, workers sized, driver watched, everything drained, summed up."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from millgate.brokers import open_broker, redact
from millgate.brokers.base import Broker
from millgate.clock import Clock
from millgate.errors import EXIT_FAILED, EXIT_OK, BrokerUnavailable, InvalidInput
from millgate.stats import Stats
from millgate_operator.dev import programs, report
from millgate_operator.dev.changes import Changed, Changes
from millgate_operator.dev.children import Children, Ended, Event, Line
from millgate_operator.dev.folder import Folder
from millgate_operator.dev.lane import Lane, Start, build
from millgate_operator.dev.manifests import Manifests, key, read
from millgate_operator.dev.pool import MAX_SHORT_LIVES
from millgate_operator.dev.screen import Screen
from millgate_operator.dev.tally import shown

BROKER: Final = "broker"
DRIVER: Final = "driver"
#: Seconds between two looks at a queue; the operator's own are longer because a cluster's clients are many.
_TICK: Final = 1.0
_DRAW: Final = 0.25
_START: Final = 20.0
#: Codes of a worker that no new start can mend: flags, app, broker refused, ceilings.
_FINAL_CODES: Final = (2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `url` None: a local broker in `folder`. `driver` None: until Ctrl-C."""

    manifests: Manifests
    folder: Folder
    environ: Mapping[str, str]
    url: str | None = None
    path: Path = Path()  # where the manifests were read
    reload: bool = False  # edited code replaces the workers
    script: str | None = None
    arguments: Sequence[str] = ()
    verbose: bool = False


class Run:
    """The imperative shell around it all; used from one thread."""

    def __init__(self, plan: Plan, screen: Screen, clock: Clock) -> None:
        self._plan, self._screen, self._clock = plan, screen, clock
        self._children = Children()
        self._lanes: list[Lane] = []
        self._interrupts = 0
        self._up = False  # everything has been started; until then Ctrl-C cannot wait
        self._driver_code: int | None = None
        self._code: int | None = None  # set: the run is over, with this code
        self._changes = Changes(plan.path, code=plan.reload)
        self._url = plan.url or programs.local_url(plan.folder.path, plan.folder.keep)

    def run(self) -> int:
        """Until the driver's work is done, Ctrl-C, or a failure; answers the exit code."""
        started = self._clock.monotonic()
        previous = {
            number: signal.signal(number, self._interrupted)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self._start()
            self._up = True
            self._work()
            self._drain()
            seconds = self._clock.monotonic() - started
            report.summary(self._screen, self._lanes, seconds, ask=self._has_broker)
            return EXIT_OK if self._code is None else self._code
        finally:
            try:
                self._screen.end()
            finally:  # also when the terminal is gone
                self._close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    # --- the parts of a run ----------------------------------------------------------------------

    def _start(self) -> None:
        plan = self._plan
        first = plan.manifests.queues[0]
        home = plan.manifests.folder_of(first)
        command = programs.driver_command(plan.script, plan.arguments, home)
        if plan.url is None:
            programs.check_alone(plan.folder.path)
            program = programs.broker_program(plan.folder.path, plan.environ, plan.folder.keep)
            self._children.start(BROKER, program.command, program.environ)
        for queue in plan.manifests.queues:
            broker = open_broker(self._url, queue=queue.broker_queue)
            self._reach(broker)
            lane = build(queue, plan.manifests, broker, self._starting)
            lane.configure(self._screen)
            self._lanes.append(lane)
        self._screen.say(
            f"broker {redact(self._url)}, queue {', '.join(q.broker_queue for q in plan.manifests.queues)}"
        )
        if command is not None:
            program = programs.driver_program(command, first, self._url, home, plan.environ)
            self._children.start(DRIVER, program.command, program.environ)

    def _reach(self, broker: Broker) -> None:
        """Set the broker up, once it answers: the one that was just started needs a moment."""
        end = self._clock.monotonic() + _START
        said = self._plan.url is None
        while True:
            try:
                if self._plan.url is None:
                    broker.server()  # first: `setup` would start another local broker where none listens yet
                broker.setup()
            except BrokerUnavailable as error:
                if not said:
                    self._screen.say(f"{error} (trying for {_START:.0f}s)")
                    said = True
                self._handle(self._children.wait(0.1))
                gone = self._plan.url is None and BROKER not in self._children
                if gone or self._clock.monotonic() > end:
                    raise
            else:
                return

    def _work(self) -> None:
        tick = draw = self._clock.monotonic()
        while self._code is None and not self._interrupts:
            self._handle(self._children.wait(_DRAW))
            now = self._clock.monotonic()
            if now >= tick:
                tick = now + _TICK
                self._take_over(self._changes.since())
                readings = [lane.tick(now) for lane in self._lanes]
                self._judge(readings)
            if now >= draw:
                draw = now + _DRAW
                for lane in self._lanes:
                    lane.weigh(self._children)
                self._screen.block(report.progress(self._lanes, self._screen.wide))

    @property
    def _starting(self) -> Start:
        return Start(self._url, self._plan.environ, self._children, self._screen)

    def _take_over(self, changed: Changed) -> None:
        """Go on with what was edited; what cannot be used is said and changes nothing."""
        if changed.code:
            self._screen.say("code was edited: workers are replaced")
            for lane in self._lanes:
                lane.pool.renew()
        if not changed.manifests:
            return
        try:
            manifests = read(self._plan.path)
            edited = {key(queue): queue for queue in manifests.queues}
            ready = [
                lane.edited(edited.pop(key(lane.queue)), manifests, self._starting)
                for lane in self._lanes
                if key(lane.queue) in edited
            ]
            for take_over in ready:  # once all can be used
                take_over()
        except (InvalidInput, BrokerUnavailable) as error:
            self._screen.say(f"not taken over: {error}")
            return
        self._screen.say("manifests were edited: taken over")
        for _, name in edited:
            self._screen.say(f"{name} is a new TaskQueue: start again to run it")

    def _judge(self, readings: Sequence[Stats | None]) -> None:
        if self._driver_code is None:
            return
        if self._driver_code != EXIT_OK:
            self._screen.say(f"the driver ended with code {self._driver_code}")
            self._code = self._driver_code if self._driver_code > 0 else 128 - self._driver_code
        elif all(stats is not None and quiet(stats) for stats in readings):
            self._code = EXIT_OK

    def _drain(self) -> None:
        self._screen.say("draining: no new tasks, what runs may end (Ctrl-C again to stop at once)")
        seen = self._interrupts  # first: what follows may take its time
        for lane in self._lanes:
            self._last_look(lane)
            lane.pool.drain()
        self._children.signal(DRIVER, signal.SIGTERM)
        longest = max(lane.drain_timeout for lane in self._lanes) if self._has_broker else 0.0
        end = self._clock.monotonic() + longest + (15.0 if self._has_broker else 3.0)
        while any(lane.pool.workers for lane in self._lanes) or DRIVER in self._children:
            self._handle(self._children.wait(_DRAW))
            if self._interrupts > seen or self._clock.monotonic() > end:
                return  # `_close` kills what is left; the broker gives its tasks back when their leases end
            self._screen.block(report.progress(self._lanes, self._screen.wide))
        for lane in self._lanes:
            self._last_look(lane)

    @property
    def _has_broker(self) -> bool:
        """Whether there is one to ask: not when the one started here has ended."""
        return self._plan.url is not None or BROKER in self._children

    def _last_look(self, lane: Lane) -> None:
        if self._has_broker:
            lane.last_look()

    def _close(self) -> None:
        for lane in self._lanes:
            lane.broker.close()
        if BROKER in self._children:
            self._children.signal(BROKER, signal.SIGTERM)
            end = self._clock.monotonic() + 10.0
            while BROKER in self._children and self._clock.monotonic() < end:
                self._children.wait(_DRAW)
        self._children.close()
        self._plan.folder.remove()

    # --- events ----------------------------------------------------------------------------------

    def _handle(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Line):
                self._line(event)
            else:
                self._ended(event)

    def _line(self, line: Line) -> None:
        if line.child == DRIVER:
            self._screen.raw(line.text)
            return
        lane = next((lane for lane in self._lanes if line.child in lane.pool.workers), None)
        verbose = self._plan.verbose
        text = (
            lane.tally.line(line.child, line.text, verbose) if lane else shown(line.text, verbose)
        )
        if text is not None:
            self._screen.say(f"{line.child}: {text}")

    def _ended(self, event: Ended) -> None:
        if event.child == DRIVER:
            self._driver_code = event.code
        elif event.child == BROKER and self._code is None and self._lanes:
            self._screen.say(f"the broker ended by itself with code {event.code}; {self._kept}")
            self._code = EXIT_FAILED
        for lane in self._lanes:
            if event.child in lane.pool.workers:
                lane.pool.ended(event.child, event.code, self._clock.monotonic())
                self._give_up(lane, event.code)

    @property
    def _kept(self) -> str:
        if self._plan.folder.keep:
            return f"its tasks are kept in {self._plan.folder.path}, start again to go on"
        return "its tasks are gone"

    def _give_up(self, lane: Lane, code: int) -> None:
        if self._code is not None or self._interrupts:
            return
        if code in _FINAL_CODES and lane.pool.short_lives:
            self._screen.say(f"{lane.name}: no worker can start; mend what it says above")
            self._code = code
        elif lane.pool.short_lives >= MAX_SHORT_LIVES:
            self._screen.say(f"{lane.name}: {MAX_SHORT_LIVES} workers in a row ended at once")
            self._code = EXIT_FAILED

    def _interrupted(self, number: int, frame: object) -> None:
        del number, frame
        self._interrupts += 1
        # A broker that is away is waited for in one long call.
        if not self._up and self._interrupts == 1:
            raise KeyboardInterrupt


def quiet(stats: Stats) -> bool:
    """Whether nothing waits, is delayed or runs in the queue; what is unknown is not nothing."""
    return all(
        (topic.waiting, topic.delayed, topic.leased) == (0, 0, 0) for topic in stats.topics.values()
    )
