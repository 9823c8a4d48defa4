"""The pauses of reconnecting, and where the URL comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millgate.brokers.memory import MemoryBroker
from millgate.clock import SystemClock
from millgate.errors import BrokerUnavailable, InvalidSettings
from millgate.runtime.connection import Connection, pause_after, url_source
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from support.clock import FakeClock


def journal() -> Journal:
    return Journal(
        SystemClock(), json_lines=True, level="error", descriptor=os.open("/dev/null", os.O_WRONLY)
    )


def test_pauses_double_up_to_a_bound_and_half_of_each_is_chance() -> None:
    assert [pause_after(failures, 1.0) for failures in (1, 2, 3)] == [0.2, 0.4, 0.8]
    assert pause_after(50, 1.0) == 5.0
    assert pause_after(50, 0.0) == 2.5


def reading(file: Path) -> Connection:
    """A connection whose address is in a file."""
    source = url_source("", str(file))
    return Connection(source, "millgate", journal=journal(), metrics=Metrics(), clock=SystemClock())


def test_the_url_is_given_or_in_a_file_that_is_read_each_time(tmp_path: Path) -> None:
    assert url_source("local://", "")() == "local://"
    file = tmp_path / "url"
    source = url_source("", str(file))
    with pytest.raises(InvalidSettings, match="--broker-file"):
        source()
    file.write_text("memory://one\n", encoding="utf-8")
    assert source() == "memory://one"
    with pytest.raises(InvalidSettings, match="no broker"):
        url_source("", "")


def test_a_rotated_file_is_used_after_the_next_failure(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("memory://before", encoding="utf-8")
    connection = reading(file)
    before = connection.broker
    connection.failed(BrokerUnavailable())
    assert connection.broker is before
    file.write_text("memory://after", encoding="utf-8")
    connection.failed(BrokerUnavailable())
    assert connection.broker is not before
    assert connection.name == "memory://after"


def test_a_file_that_vanishes_keeps_the_present_broker(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("memory://x", encoding="utf-8")
    connection = reading(file)
    file.unlink()
    before = connection.broker
    assert connection.failed(BrokerUnavailable()) > 0
    assert connection.broker is before


@pytest.mark.parametrize("half", ["", "nonsense"])
def test_a_file_that_is_half_written_keeps_the_present_broker(tmp_path: Path, half: str) -> None:
    file = tmp_path / "url"
    file.write_text("memory://x", encoding="utf-8")
    connection = reading(file)
    before = connection.broker
    file.write_text(half, encoding="utf-8")
    for _ in range(2):
        assert connection.failed(BrokerUnavailable()) > 0
        assert connection.broker is before
    file.write_text("memory://y", encoding="utf-8")
    connection.failed(BrokerUnavailable())
    assert connection.name == "memory://y"


def test_errors_are_counted_and_the_end_of_an_outage_is_noticed() -> None:
    metrics, clock = Metrics(), FakeClock()
    connection = Connection(
        lambda: "",
        "millgate",
        journal=journal(),
        metrics=metrics,
        clock=clock,
        broker=MemoryBroker(),
    )
    assert connection.down_for == 0.0
    pauses = [connection.failed(BrokerUnavailable()) for _ in range(5)]
    assert not connection.up
    clock.advance(20.0)
    connection.failed(BrokerUnavailable())
    assert connection.down_for == 20.0
    assert max(pauses) > pauses[0]
    assert metrics.value("millgate_broker_errors_total", reason="Unreachable") == 6
    connection.answered()
    assert connection.up
    assert connection.down_for == 0.0
    assert connection.failed(BrokerUnavailable()) <= 0.2
