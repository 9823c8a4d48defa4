"""`python -m millgate_operator`: waits for leadership, then watches and works until it must stop.

Crash-only: whatever it cannot go on without ends the process, and the next start finds everything in the cluster
and in the brokers. There is nothing to clean up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import kopf

from millgate.clock import SystemClock
from millgate.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, InvalidSettings
from millgate_operator import definitions, handlers, logs
from millgate_operator.autoscale import look
from millgate_operator.canary import EVERY, Canary
from millgate_operator.cluster import TASK_QUEUE, ClusterError, KubernetesCluster
from millgate_operator.context import Context, make_context
from millgate_operator.gauges import gauges
from millgate_operator.health import Answers, serve
from millgate_operator.leader import RETRY, Leader
from millgate_operator.links import Key
from millgate_operator.metrics import Metrics
from millgate_operator.reconcile import reconcile
from millgate_operator.report import NUMBERS_EVERY
from millgate_operator.settings import OperatorSettings, environment

_LOG = logging.getLogger("millgate_operator")
_LAST_WORDS: Final = 5.0  # seconds that work under way is given at the end
#: Threads that look at pools, for each that reconciles: they mostly wait for brokers.
_LOOKERS: Final = 3
_GLANCE: Final = 0.5  # seconds between two looks at whether we still lead
_LAG: Final = 15.0  # seconds that the event loop may be late


@dataclass(slots=True)
class Life:
    """What the probes ask."""

    leading: bool = False
    stopping: bool = False
    beat: float | None = None  # the event loop's, monotonic


def main() -> int:
    """Run the operator; answers the exit code."""
    try:
        settings = _settings()
        logs.configure(settings.log_format, settings.log_level)
        return _run(settings)
    except InvalidSettings as error:
        sys.stderr.write(f"millgate-operator: error: {error}\n")
        return EXIT_USAGE
    except ClusterError as error:
        sys.stderr.write(f"millgate-operator: error: {error}\n")
        return EXIT_FAILED


def _settings() -> OperatorSettings:
    settings = OperatorSettings.from_env(environment())
    return settings if settings.identity else replace(settings, identity=socket.gethostname())


def _run(settings: OperatorSettings) -> int:
    clock, metrics, life = SystemClock(), Metrics(), Life()
    count = partial(_count_call, metrics)
    cluster = KubernetesCluster(count)
    definitions.check(cluster, clock, settings.namespaces[0] if settings.namespaces else None)
    context = make_context(cluster, clock, settings, metrics)
    canary = Canary(cluster, clock, *_canary_place(settings))
    leader = Leader(cluster, clock, (settings.namespace, settings.lease), settings.identity)
    server = serve(settings.listen, _answers(context, canary, life))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        if settings.lease and not _wait_to_lead(leader, stop):
            return EXIT_OK
        life.leading = True
        _LOG.info("leading as %s", settings.identity)
        workers, helpers = list(_workers(context)), list(_helpers(context, canary))
        if settings.lease:
            helpers += _lease_threads(leader, stop)
        for thread in [*workers, *helpers]:
            thread.start()
        code = _watch(context, canary, life, stop)
        _finish(context, workers)
        return code
    finally:
        if settings.lease and leader.holds():
            leader.release()
        context.links.close_all()
        server.shutdown()


def _count_call(metrics: Metrics, verb: str, status: int) -> None:
    metrics.add("millgate_operator_api_requests_total", verb=verb, code=str(status))


def _canary_place(settings: OperatorSettings) -> tuple[str, str]:
    """Where the watch looks anyway."""
    name = f"{settings.lease or 'millgate-operator'}-canary"
    if not settings.namespaces or settings.namespace in settings.namespaces:
        return settings.namespace, name
    return settings.namespaces[0], name


def _wait_to_lead(leader: Leader, stop: threading.Event) -> bool:
    while not stop.is_set():
        if leader.attempt():
            return True
        stop.wait(RETRY)
    return False


def _workers(context: Context) -> Iterator[threading.Thread]:
    """Those that write: into the cluster and into brokers."""

    def reconcile_counted(key: Key) -> float | None:
        began = context.clock.monotonic()
        try:
            return reconcile(context, key)
        finally:
            took = context.clock.monotonic() - began
            context.metrics.add("millgate_operator_reconciles_total")
            context.metrics.add("millgate_operator_reconcile_seconds_total", took)

    count = context.settings.workers
    for number in range(count):
        run = partial(context.reconciles.run, reconcile_counted)
        yield threading.Thread(target=run, name=f"reconcile-{number}", daemon=True)
    for number in range(count * _LOOKERS):
        run = partial(context.looks.run, partial(look, context))
        yield threading.Thread(target=run, name=f"look-{number}", daemon=True)


def _helpers(context: Context, canary: Canary) -> Iterator[threading.Thread]:
    tasks: dict[str, partial[None]] = {
        "resync": partial(_resync, context),
        "canary": partial(_sing, context, canary),
    }
    for name, task in tasks.items():
        yield threading.Thread(target=task, name=name, daemon=True)


def _lease_threads(leader: Leader, stop: threading.Event) -> Iterator[threading.Thread]:
    for name, task in (("lease", _keep_leading), ("lease-watch", _end_with_the_lease)):
        yield threading.Thread(target=task, args=(leader, stop), name=name, daemon=True)


def _finish(context: Context, workers: list[threading.Thread]) -> None:
    """Let what is under way end, so that the next leader does not meet it; not for long."""
    context.reconciles.stop()
    context.looks.stop()
    until = context.clock.monotonic() + _LAST_WORDS
    for worker in workers:
        worker.join(max(0.0, until - context.clock.monotonic()))


def _resync(context: Context) -> None:
    """Everything again now and then: what the watch never told is found here."""
    while True:
        context.clock.sleep(context.settings.resync)
        context.applier.forget()
        context.tidy(NUMBERS_EVERY)
        for namespace in context.settings.namespaces or (None,):
            try:
                found = context.cluster.list(TASK_QUEUE, namespace)
            except ClusterError as error:
                _LOG.warning("the resync has to wait: %s", error)
                continue
            there = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found}
            for key, _ in context.pools.all():
                if namespace is None or key[0] == namespace:
                    there.add(key)
            for position, key in enumerate(sorted(there)):
                context.reconciles.add(key, position * 0.05)  # spread, not as one wave


def _sing(context: Context, canary: Canary) -> None:
    while True:
        try:
            canary.sing()
        except ClusterError as error:
            _LOG.warning("the canary's lease could not be renewed: %s", error)
        context.clock.sleep(EVERY)


def _keep_leading(leader: Leader, stop: threading.Event) -> None:
    """Until we stop: what is given back then must not be taken again."""
    while not stop.wait(RETRY):
        leader.attempt()


def _end_with_the_lease(leader: Leader, stop: threading.Event) -> None:
    """On a thread of its own: an API server that is silent keeps the one that renews for longer than the lease."""
    while not stop.wait(_GLANCE):
        if not leader.holds():
            _die("the lease is lost; another operator may act now")


def _watch(context: Context, canary: Canary, life: Life, stop: threading.Event) -> int:
    """Watch until `stop` is set; answers the exit code. kopf ends by itself only when something is wrong.

    It runs in a thread of its own, which leaves the signals to us, and is not waited for: it holds nothing.
    """
    ended = threading.Event()

    def run() -> None:
        try:
            asyncio.run(_kopf(context, canary, life))
        except Exception:  # noqa: BLE001 -- the process ends because of it, whatever it is
            _LOG.exception("the watch failed")
        finally:
            ended.set()
            stop.set()

    threading.Thread(target=run, name="watch", daemon=True).start()
    stop.wait()
    life.stopping = True
    if not ended.is_set():
        return EXIT_OK
    _LOG.error("the watch ended by itself; starting again is the way to go on")
    return EXIT_FAILED


async def _kopf(context: Context, canary: Canary, life: Life) -> None:
    settings = kopf.OperatorSettings()
    handlers.configure(settings, canary)
    canary.begin()
    heart = asyncio.create_task(_beat(context, canary, life))
    try:
        await kopf.operator(
            registry=handlers.registry(context, canary),
            settings=settings,
            clusterwide=not context.settings.namespaces,
            namespaces=list(context.settings.namespaces),
        )
    finally:
        heart.cancel()


async def _beat(context: Context, canary: Canary, life: Life) -> None:
    limit = context.settings.canary
    while True:
        life.beat = context.clock.monotonic()
        age = canary.age()
        if limit and age is not None and age > limit:
            _die(f"no sign of life came through the watch for {age:.0f} s")
        await asyncio.sleep(0.5)


def _answers(context: Context, canary: Canary, life: Life) -> Answers:
    def healthy() -> str:
        if not life.leading:
            return ""
        now, age, limit = context.clock.monotonic(), canary.age(), context.settings.canary
        if life.beat is None or now - life.beat > _LAG:
            return "the event loop does not move"
        if limit and age is not None and age > limit:
            return f"blind: no sign of life came through the watch for {age:.0f} s"
        return ""

    def ready() -> str:
        return "stopping" if life.stopping else healthy()

    def metrics() -> str:
        return context.metrics.text(gauges(context, canary, leading=life.leading))

    return Answers(healthy, ready, metrics)


def _die(words: str) -> None:
    _LOG.critical("%s; ending at once", words)
    logging.shutdown()
    os._exit(EXIT_FAILED)


def run() -> None:
    """Run the operator and end the process, threads that wait for the network included."""
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
