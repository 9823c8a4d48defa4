"""The operator's numbers as Prometheus text; names are bounded by queues and pools, never by tasks."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Final

_HELP: Final = {
    "millgate_operator_build_info": "gauge",
    "millgate_operator_leader": "gauge",
    "millgate_operator_reconciles_total": "counter",
    "millgate_operator_reconcile_seconds_total": "counter",
    "millgate_operator_queue_depth": "gauge",
    "millgate_operator_api_requests_total": "counter",
    "millgate_operator_broker_connections": "gauge",
    "millgate_operator_watch_age_seconds": "gauge",
    "millgate_autoscaler_decisions_total": "counter",
    "millgate_autoscaler_term": "gauge",
    "millgate_pool_desired": "gauge",
    "millgate_topic_queued": "gauge",
    "millgate_topic_claimable": "gauge",
    "millgate_topic_running": "gauge",
    "millgate_topic_dead": "gauge",
    "millgate_topic_dead_dropped_total": "counter",
    "millgate_topic_oldest_seconds": "gauge",
}

Sample = tuple[str, Mapping[str, str], float]


class Metrics:
    """Counters, added to from any thread; gauges are asked for when somebody looks."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        self._lock = threading.Lock()

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Count something."""
        with self._lock:
            self._counters[name, tuple(sorted(labels.items()))] += amount

    def forget(self, **labels: str) -> None:
        """Drop the counters that have all these labels: what they were about is gone."""
        with self._lock:
            for counter in [
                one for one in self._counters if labels.items() <= dict(one[1]).items()
            ]:
                del self._counters[counter]

    def text(self, gauges: Iterable[Sample]) -> str:
        """Everything, in the text format 0.0.4."""
        with self._lock:
            counters = [
                (name, dict(labels), value) for (name, labels), value in self._counters.items()
            ]
        samples: dict[str, list[str]] = defaultdict(list)
        for name, labels, value in [*counters, *gauges, _build()]:
            samples[name].append(f"{name}{_labels(labels)} {value:g}")
        return "".join(_family(name, lines) for name, lines in sorted(samples.items()))


def _build() -> Sample:
    return "millgate_operator_build_info", {"version": version("millgate-operator")}, 1.0


def _family(name: str, lines: list[str]) -> str:
    return f"# TYPE {name} {_HELP.get(name, 'untyped')}\n" + "".join(line + "\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(_pairs(labels)) + "}" if labels else ""


def _pairs(labels: Mapping[str, str]) -> Iterator[str]:
    for name, value in labels.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'{name}="{escaped}"'
