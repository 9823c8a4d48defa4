"""The measuring command: what it prints, and that its sums are right."""

from __future__ import annotations

import pytest

from millgate.cli.measured import quantile
from millgate.clock import SystemClock

from .conftest import Shell


def test_a_memory_broker_is_measured_without_a_worker(shell: Shell) -> None:
    shell.clock = SystemClock()
    measured = shell.json("bench", "--broker", "memory://", "--tasks", "400", "--samples", "10")
    assert shell.code == 0
    assert (measured["broker"], measured["tasks"], measured["children"]) == ("memory", 400, 0)
    for name in ("drain_per_s", "enqueue_per_s", "bulk_enqueue_per_s", "cpu_us_per_task"):
        assert measured[name] >= 0
    assert measured["latency_ms"]["p50"] <= measured["latency_ms"]["p99"]
    assert measured["rss_mb"]["child"] is None
    assert {"cpus", "arch", "system"} <= set(measured["machine"])
    assert {"millgate", "python", "memory"} <= set(measured["versions"])


def test_a_table_says_the_same(shell: Shell) -> None:
    shell.clock = SystemClock()
    assert shell("bench", "--broker", "memory://", "--tasks", "200", "--samples", "10") == 0
    assert "drained per second" in shell.out
    assert "? MB" in shell.out


@pytest.mark.parametrize("flags", [("--tasks", "5"), ("--children", "0"), ("--samples", "1")])
def test_too_little_to_measure_is_refused(shell: Shell, flags: tuple[str, ...]) -> None:
    assert shell("bench", *flags) == 2


def test_a_quantile_is_one_of_the_values() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert quantile(values, 0.5) == 3.0
    assert quantile(values, 0.99) == 5.0
    assert quantile(values, 0.0) == 1.0
