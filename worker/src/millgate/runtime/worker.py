"""The life of a supervisor: its threads begin, run and end in order, and it says why."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from traceback import format_exc
from typing import Any, Final

from millgate.brokers.base import Broker
from millgate.errors import (
    EXIT_BROKER,
    EXIT_LIMITS,
    EXIT_OK,
    BrokerRefused,
    BrokerUnavailable,
    MillgateError,
)
from millgate.fleet import WorkerState
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.health import Answers, Health
from millgate.runtime.parts import Parts
from millgate.runtime.processes import become_subreaper, sweep
from millgate.runtime.recycle import Because
from millgate.runtime.status import Status
from millgate.settings import WorkerSettings
from millgate.shortage import OF_THREADS
from millgate.spec import TaskWire

#: Seconds for which an unreachable broker is tried at start.
_REACH: Final = 30.0
#: The interpreter hands the GIL over this often, so that the watch is not late beside busy threads.
_SWITCH: Final = 0.0005
#: Seconds at the end for everything: killed children to be gone, the last settlements, the farewell, other threads.
_ENDING: Final = 10.0
#: … of them at most for children, and for each of the other threads.
_GOING: Final = 5.0
_JOINING: Final = 1.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Worker:
    """One supervisor, from start to exit code."""

    def __init__(
        self,
        settings: WorkerSettings,
        deadlines: Deadlines,
        link: socket.socket | None = None,
        broker: Broker | None = None,
    ) -> None:
        """`link` ends when the guardian is gone. `broker`: one that is open already. Raises InvalidSettings."""
        self.parts = Parts(settings, deadlines, broker)
        self.status = Status(self.parts)
        self.code: int | None = None
        self.problem = ""
        self._schedules = False  # whether there are any
        self._scheduling = False  # whether their thread runs
        self._link = link
        self._join()
        self._health = self._build_health()

    def _join(self) -> None:
        parts = self.parts
        post = parts.reactor.post
        parts.loop.on_nothing_left = lambda: post(self._drain, "nothing left to do")
        parts.loop.on_superseded = lambda: post(self._superseded)
        parts.leases.on_state = self._state_changed
        parts.leases.beat = self.status.beat
        parts.pool.fatal = self._fatal
        parts.pool.on_ready = self._app_known

    def _build_health(self) -> Health | None:
        address = self.parts.settings.metrics
        if not address:
            return None
        status = self.status
        return Health(
            address, Answers(status.alive, status.ready, status.metrics_text, status.as_dict)
        )

    # --- running ---------------------------------------------------------------------------------

    def run(self) -> int:
        """Work until told to stop; answers the exit code. Call it in the main thread."""
        parts = self.parts
        become_subreaper()
        sys.setswitchinterval(_SWITCH)
        self._listen()
        parts.journal.say(
            "info",
            "worker starts",
            name=parts.ref.name,
            broker=parts.connection.name,
            app=parts.settings.app,
        )
        try:
            threads = self._begin()
        except RuntimeError as error:
            self._no_thread(error)
            return self._say_goodbye()
        while self.code is None and not parts.floor.finished:
            parts.floor.turn()
        return self._end(threads)

    def _begin(self) -> list[threading.Thread]:
        """Start the threads; answers those that end with the worker. Raises RuntimeError without one to have."""
        parts = self.parts
        if self._health is not None:
            self._health.start()
        threads = [
            self._thread("watch", parts.memory.run),
            self._thread("desk", parts.desk.run),
            self._thread("locks", parts.desk.keep_locks),
        ]
        self._broker_thread = self._thread("broker", self._serve_broker)
        return threads

    def _no_thread(self, error: RuntimeError) -> None:
        self._fatal(EXIT_LIMITS, f"cannot start the worker: {error}; {OF_THREADS}")

    def _thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._keep_going, args=(name, target), name=name)
        thread.daemon = True
        thread.start()
        return thread

    def _keep_going(self, name: str, target: Callable[[], None]) -> None:
        """No error of ours ends a thread in silence: it is said, and the thread begins again."""
        parts = self.parts
        while True:
            try:
                target()
            except Exception:  # noqa: BLE001 -- whatever it is, a worker that is alive and idle is worse
                parts.metrics.add("millgate_internal_errors_total", thread=name)
                parts.journal.say("error", "internal error", thread=name, traceback=format_exc())
                parts.clock.sleep(1.0)
            else:
                return

    def _listen(self) -> None:
        def received(number: int, _frame: Any) -> None:
            self.parts.reactor.post(self._drain, signal.Signals(number).name)

        for number in _SIGNALS:
            signal.signal(number, received)
        if self._link is not None:
            self.parts.reactor.add(self._link.fileno(), lambda _events: self._orphaned())

    def _orphaned(self) -> None:
        """The guardian is gone: without it nobody would end what is left when this process goes."""
        for child in self.parts.pool.children.values():
            os.kill(child.pid, signal.SIGKILL)
        sweep(())
        os._exit(9)

    def _serve_broker(self) -> None:
        """The broker thread: reach the broker, then claim and settle until the end."""
        if not self._reach():
            return
        if not self.status.registered:  # after an error of ours the thread comes here again
            try:
                self._thread("renew", self.parts.leases.run)
            except RuntimeError as error:  # without renewals nothing may be claimed
                self.parts.reactor.post(self._no_thread, error)
                return
        self.status.registered = True
        self.parts.reactor.post(self._schedule)
        self.parts.loop.run()
        self.parts.leases.stop()
        self._leave()

    def _leave(self) -> None:
        """Leave the registry, once everything is settled. Here, since a broker that is away answers neither: the end
        of the worker waits for both together."""
        parts = self.parts
        try:
            parts.connection.broker.unregister(parts.ref)
        except MillgateError as error:
            parts.journal.say("warning", "could not leave the registry", error=str(error))
        parts.connection.close()

    def _reach(self) -> bool:
        parts = self.parts
        end = parts.clock.monotonic() + _REACH
        while self.code is None and parts.floor.drain.began is None:
            try:
                parts.policies.refresh(parts.loop.introduce())
            except BrokerUnavailable as error:
                if parts.clock.monotonic() >= end:
                    self._fail(
                        EXIT_BROKER,
                        f"broker {parts.connection.name}: {error} (tried for {_REACH:.0f}s)",
                    )
                    return False
                parts.clock.sleep(parts.connection.failed(error))
            except BrokerRefused as error:
                self._fail(EXIT_BROKER, f"broker {parts.connection.name}: {error}")
                return False
            except MillgateError as error:
                self._fail(EXIT_BROKER, str(error))
                return False
            else:
                return True
        return False

    # --- what happens ----------------------------------------------------------------------------

    def _drain(self, why: str) -> None:
        """Stop claiming and finish; again: hurry. In the io thread."""
        parts = self.parts
        first = parts.floor.drain.began is None
        if parts.floor.drain.echoes(parts.clock.monotonic()):
            return
        parts.loop.stop_claiming()
        parts.journal.say("info", "worker drains" if first else "worker hurries", why=why)
        parts.timers.stop()
        parts.metrics.set("millgate_draining", 1)
        parts.floor.begin_drain(parts.settings.drain_timeout)
        parts.leases.nudge()

    def _superseded(self) -> None:
        self.problem = (
            f"another worker named {self.parts.ref.name!r} is registered; give each its own --name"
        )
        self._drain("superseded")

    def _fail(self, code: int, problem: str) -> None:
        self.parts.reactor.post(self._fatal, code, problem)

    def _fatal(self, code: int, problem: str) -> None:
        if self.code is None:
            self.code, self.problem = code, problem
            self.parts.pool.wanted = 0  # until the drain begins another child would be for nothing

    def _app_known(self, info: dict[str, Any]) -> None:
        parts = self.parts
        tasks = [TaskWire.from_wire(fields) for fields in info["tasks"]]
        parts.intake.tasks = {task.name: task for task in tasks}
        self._schedules = parts.timers.know(parts.intake.tasks)
        self._schedule()

    def _schedule(self) -> None:
        """Start the thread of schedules once: when there are some, and the broker has been prepared for them."""
        parts = self.parts
        if self._scheduling or not (self._schedules and self.status.registered):
            return
        try:
            self._thread("timers", parts.timers.run)
            self._scheduling = True
        except RuntimeError as error:  # the next child that is ready lets it be tried again
            parts.journal.say("error", "schedules wait for a thread", error=str(error))

    def _state_changed(self, state: WorkerState) -> None:
        self.parts.journal.say("info", "worker state", state=str(state))
        self.parts.loop.wake()

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, threads: list[threading.Thread]) -> int:
        """One deadline for all that is left to do and to say; what comes first is of most worth."""
        parts = self.parts
        end = parts.clock.monotonic() + _ENDING
        parts.timers.stop()
        parts.loop.end()
        for child in list(parts.pool.children.values()):
            child.kill(child.because or Because.DRAINED)
        gone = parts.clock.monotonic() + _GOING
        while parts.pool.children and parts.clock.monotonic() < gone:
            parts.reactor.turn(0.05)
        self._broker_thread.join(max(0.0, end - parts.clock.monotonic()))
        if self._broker_thread.is_alive():
            self._say_unsaid()
        parts.leases.stop()
        parts.desk.stop()
        parts.memory.stop()
        if self._health is not None:
            self._health.close()
        for thread in threads:
            thread.join(min(_JOINING, max(0.0, end - parts.clock.monotonic())))
        parts.spawner.close()
        return self._say_goodbye()

    def _say_unsaid(self) -> None:
        """The time is up before the broker has heard everything."""
        parts = self.parts
        if not self.status.registered:
            return
        parts.journal.say(
            "warning",
            "could not leave the registry",
            error=f"the broker has not answered for {_ENDING:.0f}s",
            unsettled=parts.ledger.unsettled,
        )

    def _say_goodbye(self) -> int:
        code = self.code if self.code is not None else (EXIT_BROKER if self.problem else EXIT_OK)
        self.parts.journal.say("info" if code == EXIT_OK else "error", "worker ends", code=code)
        self.parts.journal.close()
        if self.problem:
            problem = self.parts.journal.mask.text(" ".join(self.problem.split()))
            sys.stderr.write(f"millgate: error: {problem}\n")
            sys.stderr.flush()
        return code
