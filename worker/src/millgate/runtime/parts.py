"""What a supervisor consists of, built from its settings and joined; nothing runs yet, and nothing is decided here."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from millgate.brokers.base import Broker
from millgate.clock import SystemClock
from millgate.fleet import WorkerRef
from millgate.ids import new_incarnation
from millgate.queues import Subscription
from millgate.runtime import wire
from millgate.runtime.burial import Burial
from millgate.runtime.cgroup import Cgroup, find
from millgate.runtime.connection import Connection, url_source
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.desk import Desk
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.estimate import Runtimes
from millgate.runtime.floor import Floor
from millgate.runtime.identity import ceilings_of, doubts, info_of, own_name, wants_json
from millgate.runtime.intake import Intake
from millgate.runtime.lease import Leases
from millgate.runtime.ledger import Ledger
from millgate.runtime.logs import Bridge, Journal
from millgate.runtime.loop import Loop
from millgate.runtime.mask import Mask
from millgate.runtime.memory import Memory
from millgate.runtime.metrics import Metrics
from millgate.runtime.overtime import Overtime
from millgate.runtime.policies import Policies
from millgate.runtime.pool import Pool
from millgate.runtime.pulse import Pulse
from millgate.runtime.reactor import Reactor
from millgate.runtime.recycle import Bounds, Ceilings
from millgate.runtime.spawn import Spawner
from millgate.runtime.timers import Timers
from millgate.runtime.verdict import Verdict
from millgate.settings import WorkerSettings, environment


class Parts:
    """One of each, and who tells whom. What only the whole worker can do is joined by the worker."""

    def __init__(
        self, settings: WorkerSettings, deadlines: Deadlines, broker: Broker | None = None
    ) -> None:
        """`broker`: one that is open already. Raises InvalidSettings."""
        self.clock = SystemClock()
        self.settings = settings
        self.journal = Journal(
            self.clock,
            json_lines=wants_json(settings),
            level=settings.log_level,
            mask=Mask(environment()),
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
        self._build_records()
        self._build_children(deadlines)
        self._build_threads()
        self._join()

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
        self.spawner = Spawner(settings.slots, hello, self.clock, preload=settings.preload)
        self.pool = Pool(
            settings.children,
            Bounds(settings.max_tasks, settings.max_lifetime),
            spawner=self.spawner,
            hello=hello,
            reactor=self.reactor,
            dispatcher=self.dispatcher,
            memory=self.memory,
            burial=Burial(
                self.dispatcher,
                self.verdict,
                journal=self.journal,
                metrics=self.metrics,
                clock=self.clock,
            ),
            journal=self.journal,
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

    def _join(self) -> None:
        post = self.reactor.post
        self.ledger.woken = self.loop.wake
        self.spawner.on_unfit = lambda why: self.journal.say(
            "warning", "not preloaded", problem=why
        )
        self.loop.start = lambda runs: post(self.floor.start, runs)
        self.floor.on_target = self.loop.aim
        self.leases.on_revision = self.loop.follow
        self.leases.on_lost = lambda runs: post(self.floor.lost, runs)
        self.leases.on_cancelled = lambda runs: post(self.floor.cancelled, runs)
        self.memory.helpers = lambda: self.spawner.helpers
        self.memory.replace = lambda key, because: post(self.pool.replace, key, because)
        self.memory.hasten = lambda key: post(self.pool.hasten, key)
