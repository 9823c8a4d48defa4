"""The way to the API server breaks: a blind operator does not look healthy, and one that is cut off comes back."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millgate_operator.leader import DURATION
from node.local import LocalCluster
from support.faults import FaultProxy
from support.manifests import a_topic
from support.operator import Operator, Place
from support.wait import eventually


@pytest.fixture
def proxy(server: LocalCluster) -> Iterator[FaultProxy]:
    """Between the operator and the API server."""
    found = re.search(r"https://([\d.]+):(\d+)", server.kubeconfig.read_text())
    assert found is not None
    made = FaultProxy((found[1], int(found[2])))
    yield made
    made.close()


@pytest.fixture
def way(server: LocalCluster, proxy: FaultProxy, logs: Path) -> Path:
    """A kubeconfig that leads through the proxy."""
    text = re.sub(
        r"https://[\d.]+:\d+", f"https://127.0.0.1:{proxy.port}", server.kubeconfig.read_text()
    )
    path = logs / "kubeconfig"
    path.write_text(text)
    return path


@contextmanager
def an_operator(way: Path, place: Place, proxy: FaultProxy, **settings: str) -> Iterator[Operator]:
    """One that leads; it is gone afterwards."""
    named = {"namespaces": place.namespace, "namespace": place.namespace}
    one = Operator(way, way.parent / "log", **named, **settings).start()
    try:
        eventually(one.leads, 20)
        yield one
    finally:
        proxy.heal()
        one.close()
        print(one.text())


@pytest.fixture
def cut_off(way: Path, proxy: FaultProxy, empty: Place) -> Iterator[Operator]:
    """An operator that reaches the API server through the proxy."""
    with an_operator(way, empty, proxy, lease="", canary="25s") as one:
        yield one


def accepts(place: Place, name: str) -> None:
    place.apply(a_topic(name))
    place.becomes("topic", name, "Accepted", "False/QueueNotFound", 20)


def test_cut_connections_are_made_again(cut_off: Operator, proxy: FaultProxy, empty: Place) -> None:
    accepts(empty, "before")
    proxy.cut()
    accepts(empty, "after")
    assert cut_off.page("/healthz").startswith("200")


def test_a_silent_watch_ends_the_operator_before_anybody_believes_it(
    cut_off: Operator, proxy: FaultProxy, empty: Place
) -> None:
    """Packets vanish, connections stay open: nothing fails, and nothing happens any more."""
    accepts(empty, "before")
    proxy.drop()
    assert cut_off.wait(60) == 1
    assert "no sign of life came through the watch" in cut_off.text()
    proxy.heal()
    cut_off.start()
    eventually(cut_off.leads, 20)
    accepts(empty, "after")


def test_a_leader_that_hears_nothing_ends_before_another_one_may_lead(
    way: Path, proxy: FaultProxy, empty: Place
) -> None:
    """Its request to renew the lease hangs, for longer than the lease lasts."""
    with an_operator(way, empty, proxy, lease="pair") as one:
        proxy.drop()
        began = time.monotonic()
        assert one.wait(30) == 1
        took = time.monotonic() - began
        assert "the lease is lost" in one.text()
        assert took < DURATION - 2, took


def test_an_api_server_that_is_away_for_a_while_is_waited_for_or_started_for_again(
    cut_off: Operator, proxy: FaultProxy, empty: Place
) -> None:
    accepts(empty, "before")
    proxy.refuse()
    eventually(lambda: "did not answer" in cut_off.text() or not running(cut_off), 30)
    proxy.accept()
    proxy.heal()
    if not running(cut_off):
        cut_off.start()  # as the kubelet would
    accepts(empty, "after")


def running(one: Operator) -> bool:
    return one.process is not None and one.process.poll() is None
