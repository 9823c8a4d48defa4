"""The composition root of a supervisor: builds everything, runs the threads, ends in order. Nothing is decided here."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from traceback import format_exc
from typing import Any, Final

from millgate.brokers.base import Broker
from millgate.clock import Clock, SystemClock
from millgate.errors import (
    EXIT_BROKER,
    EXIT_OK,
    BrokerRefused,
    BrokerUnavailable,
    MillgateError,
)
from millgate.fleet import Beat, WorkerRef, WorkerState
from millgate.ids import new_incarnation
from millgate.queues import Subscription
from millgate.runtime import wire
from millgate.runtime.cgroup import Cgroup, find
from millgate.runtime.connection import Connection, url_source
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.desk import Desk
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.estimate import Runtimes
from millgate.runtime.floor import Floor
from millgate.runtime.health import Answers, Health
from millgate.runtime.identity import ceilings_of, doubts, info_of, own_name, wants_json
from millgate.runtime.intake import Intake
from millgate.runtime.lease import Leases
from millgate.runtime.ledger import Ledger
from millgate.runtime.logs import Bridge, Journal
from millgate.runtime.loop import Loop
from millgate.runtime.memory import Memory
from millgate.runtime.metrics import Metrics
from millgate.runtime.overtime import Overtime
from millgate.runtime.policies import Policies
from millgate.runtime.pool import Pool
from millgate.runtime.processes import become_subreaper, sweep
from millgate.runtime.pulse import Pulse
from millgate.runtime.reactor import Reactor
from millgate.runtime.recycle import Because, Bounds, Ceilings
from millgate.runtime.spawn import Spawner
from millgate.runtime.status import Status
from millgate.runtime.timers import Timers
from millgate.runtime.verdict import Verdict
from millgate.settings import WorkerSettings
from millgate.spec import TaskWire

#: Seconds for which an unreachable broker is tried at start.
_REACH: Final = 30.0
#: The interpreter hands the GIL over this often, so that the watch is not late beside busy threads.
_SWITCH: Final = 0.0005
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Worker:
    """One supervisor, from start to exit code."""

    def __init__(
        self,
        settings: WorkerSettings,
        deadlines: Deadlines,
        link: socket.socket | None = None,
        broker: Broker | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`link` ends when the guardian is gone. `broker`: one that is open already. Raises InvalidSettings."""
        self.clock = clock or SystemClock()
        self.settings = settings
        self.journal = Journal(
            self.clock, json_lines=wants_json(settings), level=settings.log_level
        )
        logging.getLogger().addHandler(Bridge(self.journal))
        self.metrics = Metrics()
        self.ref = WorkerRef(settings.name or own_name(), new_incarnation())
        self.connection = Connection(
            (lambda: "")
            if broker is not None
            else url_source(settings.broker, settings.broker_file),
            settings.queue,
            journal=self.journal,
            metrics=self.metrics,
            clock=self.clock,
            broker=broker,
        )
        self.code: int | None = None
        self.problem = ""
        self._link = link
        self._build_records()
        self._build_children(deadlines)
        self._build_threads()
        self._connect_parts()
        self.health = self._build_health()

    # --- building --------------------------------------------------------------------------------

    def _build_records(self) -> None:
        self.ledger = Ledger()
        self.policies = Policies()
        self.runtimes = Runtimes()
        self.pulse = Pulse(self.clock)
        self.verdict = Verdict(self.ledger, self.journal, self.metrics)
        self.desk = Desk(self.ref.incarnation, self.connection, self.journal, self.clock)

    def _build_children(self, deadlines: Deadlines) -> None:
        settings = self.settings
        ceilings, cgroup = self._measure_pod()
        self.reactor = Reactor()
        self.memory = Memory(ceilings, cgroup, settings.slots, self.clock)
        self.dispatcher = Dispatcher(settings.slots, self.runtimes, self.clock)
        path = [str(Path.cwd()), *(entry for entry in sys.path[1:] if entry)]
        hello = wire.encode(["hello", {"path": path, "app": settings.app}])
        self.spawner = Spawner(settings.slots, hello, preload=settings.preload)
        self.spawner.on_unfit = lambda why: self.journal.say(
            "warning", "not preloaded", problem=why
        )
        self.pool = Pool(
            settings.children,
            Bounds(settings.max_tasks, settings.max_lifetime),
            spawner=self.spawner,
            hello=hello,
            reactor=self.reactor,
            dispatcher=self.dispatcher,
            memory=self.memory,
            verdict=self.verdict,
            journal=self.journal,
            metrics=self.metrics,
            clock=self.clock,
        )
        self.floor = Floor(
            self.reactor,
            self.pool,
            self.dispatcher,
            ledger=self.ledger,
            verdict=self.verdict,
            runtimes=self.runtimes,
            overtime=Overtime(settings.slots, self.clock),
            desk=self.desk,
            pulse=self.pulse,
            deadlines=deadlines,
            clock=self.clock,
        )

    def _measure_pod(self) -> tuple[Ceilings, Cgroup | None]:
        ours = find()
        ceilings, counted = ceilings_of(self.settings, ours)
        for event, words in doubts(self.settings, ceilings, ours):
            self.journal.say("warning", event, None, **words)
        return ceilings, counted

    def _build_threads(self) -> None:
        settings = self.settings
        subscription = Subscription(settings.topics, settings.exclude, settings.ordered)
        self.leases = Leases(
            self.ref,
            self.connection,
            self.ledger,
            policies=self.policies,
            pulse=self.pulse,
            clock=self.clock,
        )
        self.intake = Intake(
            self.connection,
            self.ledger,
            self.policies,
            verdict=self.verdict,
            metrics=self.metrics,
            clock=self.clock,
        )
        self.loop = Loop(
            self.ref,
            info_of(settings),
            subscription,
            connection=self.connection,
            ledger=self.ledger,
            leases=self.leases,
            intake=self.intake,
            pulse=self.pulse,
            journal=self.journal,
            metrics=self.metrics,
            clock=self.clock,
            burst=settings.burst,
        )
        self.timers = Timers(self.connection, self.journal, self.metrics, self.clock)
        self.status = Status(self)

    def _connect_parts(self) -> None:
        post = self.reactor.post
        self.ledger.woken = self.loop.wake
        self.loop.start = lambda runs: post(self.floor.start, runs)
        self.loop.on_nothing_left = lambda: post(self.drain, "nothing left to do")
        self.loop.on_superseded = lambda: post(self._superseded)
        self.leases.on_lost = lambda runs: post(self.floor.lost, runs)
        self.leases.on_cancelled = lambda runs: post(self.floor.cancelled, runs)
        self.leases.on_state = self._state_changed
        self.leases.beat = self.beat
        self.memory.helpers = lambda: self.spawner.helpers
        self.memory.replace = lambda key, because: post(self.pool.replace, key, because)
        self.memory.hasten = lambda key: post(self.pool.hasten, key)
        self.pool.fatal = self._fatal
        self.pool.on_ready = self._app_known
        self.floor.on_target = self._set_target

    def _build_health(self) -> Health | None:
        if not self.settings.metrics:
            return None
        status = self.status
        answers = Answers(status.alive, status.ready, status.metrics_text, status.as_dict)
        return Health(self.settings.metrics, answers)

    # --- running ---------------------------------------------------------------------------------

    def run(self) -> int:
        """Work until told to stop; answers the exit code. Call it in the main thread."""
        become_subreaper()
        sys.setswitchinterval(_SWITCH)
        self._listen()
        self.journal.say(
            "info",
            "worker starts",
            name=self.ref.name,
            broker=self.connection.name,
            app=self.settings.app,
        )
        if self.health is not None:
            self.health.start()
        threads = [self._thread("watch", self.memory.run), self._thread("desk", self.desk.run)]
        self._broker_thread = self._thread("broker", self._serve_broker)
        while self.code is None and not self.floor.finished:
            self.floor.turn()
        return self._end(threads)

    def _thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._keep_going, args=(name, target), name=name)
        thread.daemon = True
        thread.start()
        return thread

    def _keep_going(self, name: str, target: Callable[[], None]) -> None:
        """No error of ours ends a thread in silence: it is said, and the thread begins again."""
        while True:
            try:
                target()
            except Exception:  # noqa: BLE001 -- whatever it is, a worker that is alive and idle is worse
                self.metrics.add("millgate_internal_errors_total", thread=name)
                self.journal.say("error", "internal error", thread=name, traceback=format_exc())
                self.clock.sleep(1.0)
            else:
                return

    def _listen(self) -> None:
        def received(number: int, _frame: Any) -> None:
            self.reactor.post(self.drain, signal.Signals(number).name)

        for number in _SIGNALS:
            signal.signal(number, received)
        if self._link is not None:
            self.reactor.add(self._link.fileno(), lambda _events: self._orphaned())

    def _orphaned(self) -> None:
        """The guardian is gone: without it nobody would end what is left when this process goes."""
        for child in self.pool.children.values():
            os.kill(child.pid, signal.SIGKILL)
        sweep(())
        os._exit(9)

    def _serve_broker(self) -> None:
        """The broker thread: reach the broker, wait for the app, then claim and settle until the end."""
        if not self._reach():
            return
        if not self.status.registered:  # after an error of ours the thread comes here again
            self._thread("renew", self.leases.run)
        self.status.registered = True
        self.loop.run()

    def _reach(self) -> bool:
        end = self.clock.monotonic() + _REACH
        while self.code is None and self.floor.drain.began is None:
            try:
                self.policies.refresh(self.loop.introduce())
            except BrokerUnavailable as error:
                if self.clock.monotonic() >= end:
                    self._fail(
                        EXIT_BROKER,
                        f"broker {self.connection.name}: {error} (tried for {_REACH:.0f}s)",
                    )
                    return False
                self.clock.sleep(self.connection.failed(error))
            except BrokerRefused as error:
                self._fail(EXIT_BROKER, f"broker {self.connection.name}: {error}")
                return False
            except MillgateError as error:
                self._fail(EXIT_BROKER, str(error))
                return False
            else:
                return True
        return False

    # --- what happens ----------------------------------------------------------------------------

    def drain(self, why: str) -> None:
        """Stop claiming and finish; again: hurry. In the io thread."""
        first = self.floor.drain.began is None
        if self.floor.drain.echoes(self.clock.monotonic()):
            return
        self.loop.stop_claiming()
        self.journal.say("info", "worker drains" if first else "worker hurries", why=why)
        self.timers.stop()
        self.metrics.set("millgate_draining", 1)
        self.floor.begin_drain(self.settings.drain_timeout)
        self.leases.nudge()

    def _superseded(self) -> None:
        self.problem = (
            f"another worker named {self.ref.name!r} is registered; give each its own --name"
        )
        self.drain("superseded")

    def _fail(self, code: int, problem: str) -> None:
        self.reactor.post(self._fatal, code, problem)

    def _fatal(self, code: int, problem: str) -> None:
        if self.code is None:
            self.code, self.problem = code, problem
            self.pool.wanted = 0  # until the drain begins another child would be for nothing

    def _app_known(self, info: dict[str, Any]) -> None:
        tasks = [TaskWire.from_wire(fields) for fields in info["tasks"]]
        self.intake.tasks = {task.name: task for task in tasks}
        if self.timers.know(self.intake.tasks) and not self.status.scheduling:
            self.status.scheduling = True
            self._thread("timers", self.timers.run)

    def _set_target(self, target: int) -> None:
        grown = target > self.loop.target
        self.loop.target = target
        if grown:
            self.loop.wake_if_idle()

    def _state_changed(self, state: WorkerState) -> None:
        self.journal.say("info", "worker state", state=str(state))
        self.loop.wake()

    def beat(self) -> Beat:
        """What the registry shows of this worker."""
        return self.status.beat()

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, threads: list[threading.Thread]) -> int:
        self.timers.stop()
        self.loop.end()
        for child in list(self.pool.children.values()):
            child.kill(child.because or Because.DRAINED)
        end = self.clock.monotonic() + 5.0
        while self.pool.children and self.clock.monotonic() < end:
            self.reactor.turn(0.05)
        self._broker_thread.join(10.0)
        self.leases.stop()
        self._leave()
        self.desk.stop()
        self.memory.stop()
        if self.health is not None:
            self.health.close()
        for thread in threads:
            thread.join(1.0)
        self.spawner.close()
        return self._say_goodbye()

    def _leave(self) -> None:
        if not self.status.registered:
            return
        try:
            self.connection.broker.unregister(self.ref)
            self.connection.close()
        except MillgateError as error:
            self.journal.say("warning", "could not leave the registry", error=str(error))

    def _say_goodbye(self) -> int:
        code = self.code if self.code is not None else (EXIT_BROKER if self.problem else EXIT_OK)
        self.journal.say("info" if code == EXIT_OK else "error", "worker ends", code=code)
        self.journal.close()
        if self.problem:
            sys.stderr.write(f"millgate: error: {' '.join(self.problem.split())}\n")
            sys.stderr.flush()
        return code
