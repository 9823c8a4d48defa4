"""The way to the broker falls silent, and nothing is closed: the worker finds out, goes on, and can be ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.bench import every_broker
from support.faults import FaultProxy
from support.matrix.road import proxied
from support.wait import eventually

#: Seconds in which a worker takes work again, by itself.
SOON = 15.0
#: Seconds that a worker takes at its end for all that it has to tell the broker, and some for this machine.
FAREWELL, SLACK = 10.0, 4.0


@pytest.fixture
def way(bench: Any) -> Iterator[tuple[FaultProxy, str]]:
    """A proxy before the queue's server, and the URL that leads through it by TCP; the test itself sends past it."""
    proxy, url = proxied(bench.url)
    yield proxy, url
    proxy.close()


def mute(proxy: FaultProxy) -> None:
    """All connections that there are, for good."""
    proxy.silence()


def stand_still(proxy: FaultProxy) -> None:
    """The whole way, for longer than a call may last; then everything arrives."""
    proxy.stall()
    time.sleep(12.0)
    proxy.heal()


@every_broker
@pytest.mark.parametrize("trouble", [mute, stand_still])
def test_an_idle_worker_takes_work_again(
    bench: Any, way: tuple[FaultProxy, str], trouble: Callable[[FaultProxy], None]
) -> None:
    proxy, url = way
    worker = bench.ready(children=1, broker=url)
    time.sleep(1.0)  # it waits for work
    trouble(proxy)
    time.sleep(1.0)
    sent = bench.send_many("work", [(str(bench.journal), 0.0)] * 10)
    states = bench.ends_of(sent, SOON)
    assert {(state.state, state.attempt) for state in states} == {("succeeded", 1)}
    assert worker.get("/livez")[0] == 200
    eventually(lambda: worker.get("/readyz")[0] == 200, timeout=SOON)


@every_broker
def test_a_task_that_ends_meanwhile_is_settled_once_and_not_run_again(
    bench: Any, way: tuple[FaultProxy, str]
) -> None:
    proxy, url = way
    bench.configure(lease=60.0)
    sent = bench.send("work", str(bench.journal), 2.0)
    bench.ready(children=1, broker=url)
    bench.until_noted("start")
    bench.ready(children=1)  # hungry, and nothing is wrong with its way
    proxy.drop()
    bench.until_noted("end")
    time.sleep(3.0)  # it tries to say so
    proxy.heal()
    state = bench.end_of(sent, timeout=30)
    assert (state.state, state.attempt) == ("succeeded", 1)
    assert len(bench.notes("start")) == 1


@every_broker
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_worker_that_hears_nothing_ends_in_time_when_it_is_told_to(
    bench: Any, way: tuple[FaultProxy, str], busy: bool
) -> None:
    proxy, url = way
    bench.configure(lease=60.0)
    drain = 4.0 if busy else 0.0
    worker = bench.ready(children=1, broker=url, drain_timeout="4s")
    if busy:
        bench.send("work", str(bench.journal), 600.0)
        bench.until_noted("start")
    else:
        time.sleep(1.0)  # it waits for work
    proxy.drop()
    time.sleep(0.5)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait(drain + 3 * FAREWELL) == 0
    took = time.monotonic() - began
    assert took < drain + FAREWELL + SLACK, took
    assert worker.events("could not leave the registry")
