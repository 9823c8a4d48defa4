"""Measures a memory broker: no worker can reach it from outside, so a loop claims and settles in this process."""

from __future__ import annotations

import argparse
import os
import threading
from typing import Final

from millgate.app import App
from millgate.brokers import open_broker
from millgate.brokers.base import MAX_BATCH, Ask, Broker
from millgate.cli.console import Console
from millgate.cli.measured import Measured, latencies_ms, machine, versions
from millgate.clock import Clock
from millgate.fleet import WorkerInfo, WorkerRef
from millgate.ids import new_incarnation
from millgate.queues import Subscription
from millgate.runtime.rss import rss_of
from millgate.settlement import Ack

_TOPIC: Final = "bench"
_BATCH: Final = 100


def measure(console: Console, url: str, queue: str, args: argparse.Namespace) -> Measured:
    """Publish, claim and settle without a worker; `children` is 0 and the memory is this process's."""
    clock, broker = console.clock, open_broker(url, queue=queue)
    broker.setup()
    worker = WorkerRef("bench", new_incarnation())
    broker.register(worker, WorkerInfo(slots=_BATCH))
    noop = App(broker).task(name="noop", topic=_TOPIC, result_ttl=0)(_noop)
    single = args.tasks // 2
    began = clock.monotonic()
    for _ in range(single):
        noop.send()
    halfway = clock.monotonic()
    noop.send_many(() for _ in range(args.tasks - single))
    queued = clock.monotonic()
    cpu = _cpu()
    _drain(broker, worker, args.tasks)
    drained, cpu = clock.monotonic(), _cpu() - cpu
    latencies = _latencies(clock, broker, worker, args.samples)
    server, rss = broker.server(), rss_of(os.getpid())
    broker.close()
    return Measured(
        broker=server.kind,
        tasks=args.tasks,
        children=0,
        drain_per_s=round(args.tasks / (drained - queued), 1),
        enqueue_per_s=round(single / (halfway - began), 1),
        bulk_enqueue_per_s=round((args.tasks - single) / (queued - halfway), 1),
        latency_ms=latencies_ms(latencies),
        rss_mb={"supervisor": None if rss is None else round(rss / 1e6, 1), "child": None},
        cpu_us_per_task=round(cpu / args.tasks * 1e6, 2),
        machine=machine(),
        versions=versions(server),
    )


def _noop() -> None:
    """Never runs: what is measured is the broker."""


def _drain(broker: Broker, worker: WorkerRef, tasks: int) -> None:
    """Claim in batches, each call settling the batch before it, as a worker does."""
    done: tuple[Ack, ...] = ()
    left = tasks
    while left or done:
        claims = broker.claim(worker, Ask(n=min(_BATCH, MAX_BATCH)), done).claims
        done = tuple(Ack(claim.ref, result_ttl=0) for claim in claims)
        left -= len(claims)


def _latencies(clock: Clock, broker: Broker, worker: WorkerRef, samples: int) -> list[float]:
    """Seconds from the send to the claim, with a thread that waits for work."""
    arrived: list[float] = []
    noop = App(broker).task(name="noop", topic=_TOPIC, result_ttl=0)(_noop)

    def serve() -> None:
        while len(arrived) < samples:
            broker.wait_for_work(Subscription(), 1.0)
            claims = broker.claim(worker, Ask(n=_BATCH)).claims
            arrived.extend(clock.monotonic() for _ in claims)
            broker.settle([Ack(claim.ref, result_ttl=0) for claim in claims])

    thread = threading.Thread(target=serve, name="bench")
    thread.start()
    sent: list[float] = []
    for _ in range(samples):
        clock.sleep(0.005)
        sent.append(clock.monotonic())
        noop.send()
    thread.join()
    return [after - before for before, after in zip(sent, arrived, strict=True)]


def _cpu() -> float:
    times = os.times()
    return times.user + times.system
