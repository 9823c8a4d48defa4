"""Every test here runs on every broker: a fresh queue each, the same test body, nothing skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millgate.brokers.base import Broker
from support.brokers import FACTORIES, NEWER, Venue
from support.working import Hand

BROKERS = sorted(FACTORIES)
#: What runs on further versions of servers as well, where nobody asks for more.
ON_NEWER = frozenset({"test_publish", "test_claim", "test_limits", "test_wake"})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker_name" in metafunc.fixturenames:
        part = metafunc.module.__name__.rpartition(".")[2]
        usual = [name for name in BROKERS if name not in NEWER or part in ON_NEWER]
        chosen = metafunc.config.getoption("--broker") or usual
        if unknown := set(chosen) - set(BROKERS):
            raise pytest.UsageError(f"--broker {unknown.pop()}: there are {', '.join(BROKERS)}")
        metafunc.parametrize("broker_name", [name for name in BROKERS if name in chosen])


@pytest.fixture
def venue(broker_name: str, tmp_path: Path) -> Iterator[Venue]:
    made = FACTORIES[broker_name](tmp_path)
    yield made
    made.close()


@pytest.fixture
def nobody_looks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a safety net, which would hide that nobody was woken."""
    for driver in ("postgres", "redis"):
        monkeypatch.setattr(f"millgate.brokers.{driver}.waiting._LOOK", 30.0)


@pytest.fixture
def broker(venue: Venue) -> Broker:
    """A client of a fresh queue."""
    return venue.client()


@pytest.fixture
def make_broker(venue: Venue) -> Callable[[], Broker]:
    """Makes further clients of the same queue."""
    return venue.client


@pytest.fixture
def pass_time(venue: Venue) -> Callable[[float], None]:
    """Lets the broker's clock go on."""
    return venue.pass_time


@pytest.fixture
def hand(broker: Broker) -> Hand:
    """A registered worker."""
    return Hand(broker)
