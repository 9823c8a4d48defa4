"""What `millgate bench` measured, and on what."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

from millgate.brokers.base import Server
from millgate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement. Rates per second, latencies in milliseconds, memory in MB (10⁶ bytes)."""

    broker: str
    tasks: int
    children: int
    drain_per_s: float
    enqueue_per_s: float
    bulk_enqueue_per_s: float
    latency_ms: Mapping[str, float]
    rss_mb: Mapping[str, float | None]
    cpu_us_per_task: float
    machine: Mapping[str, Any]
    versions: Mapping[str, str]


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "cpus": os.cpu_count(),
        "arch": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions(server: Server) -> dict[str, str]:
    """What was measured."""
    from millgate.cli import version

    return {
        "millgate": version(),
        "python": platform.python_version(),
        server.kind: server.version or "-",
    }


def quantile(values: list[float], share: float) -> float:
    """The value that this share of `values` is at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latencies_ms(seconds: list[float]) -> dict[str, float]:
    """The middle of some latencies and their worst hundredth, in milliseconds."""
    return {
        "p50": round(quantile(seconds, 0.5) * 1000, 3),
        "p99": round(quantile(seconds, 0.99) * 1000, 3),
    }
