"""Counters, gauges and histograms, and their Prometheus text. Label values come from the app's own tasks and topics."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from millgate.message import Claim
from millgate.runtime.ledger import Run

_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
_HELP: Final = {
    "millgate_tasks_total": "Runs that ended, by outcome.",
    "millgate_task_seconds": "How long runs took.",
    "millgate_wait_seconds": "How long messages could have run before they were claimed.",
    "millgate_claims_total": "Claims, by topic.",
    "millgate_claim_calls_total": "Calls that asked the broker for work.",
    "millgate_empty_claims_total": "Calls that asked for work when there was none.",
    "millgate_broker_seconds": "How long calls to the broker took, by verb, failed ones included.",
    "millgate_recycles_total": "Children that ended, by reason.",
    "millgate_broker_errors_total": "Calls to the broker that failed, by reason.",
    "millgate_broker_up": "1 when the last call to the broker was answered.",
    "millgate_leases_lost_total": "Claims that were another worker's before they were settled.",
    "millgate_children": "Children, by phase.",
    "millgate_busy": "Runs in progress.",
    "millgate_buffered": "Claims that wait in this worker for a slot.",
    "millgate_unsettled": "Outcomes that the broker has not taken yet.",
    "millgate_rss_bytes": "Resident memory: supervisor, the process trees of all children, and the largest tree.",
    "millgate_memory_limit_bytes": "What the pod may use.",
    "millgate_memory_used_bytes": "What counts against that limit, at the last look.",
    "millgate_draining": "1 after a signal to stop.",
    "millgate_unknown_tasks_total": "Claims given back because this app has no such task.",
    "millgate_internal_errors_total": "Errors that should not happen: please report them.",
    "millgate_schedule_fired_total": "Slots of schedules that this worker fired.",
    "millgate_watch_seconds_total": "CPU time spent on watching memory.",
}
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Counts by bucket, and the sum."""

    __slots__ = ("count", "counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.sum = 0.0
        self.count = 0

    def observe(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(_BUCKETS, value)] += 1
        self.sum += value
        self.count += 1


class Metrics:
    """Thread-safe for what is counted; gauges are set by one thread each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}
        # what is counted for each task, found by what the caller has at hand
        self._claims: dict[str, tuple[tuple[str, Labels], Histogram]] = {}
        self._ends: dict[tuple[str, str, str], tuple[tuple[str, Labels], Histogram]] = {}

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Count up."""
        key = (name, tuple(labels.items()))
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, name: str, value: float | None, **labels: str) -> None:
        """Set a gauge; None removes it, for what is not known is not zero."""
        key = (name, tuple(labels.items()))
        with self._lock:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """One more value of a histogram."""
        with self._lock:
            self._histogram(name, tuple(labels.items())).observe(value)

    def value(self, name: str, **labels: str) -> float:
        """What a counter or gauge stands at."""
        return self._values.get((name, tuple(labels.items())), 0.0)

    def claimed(self, claims: Iterable[Claim]) -> None:
        """Claims that came, and how long their messages could have run before."""
        values = self._values
        with self._lock:
            for claim in claims:
                known = self._claims.get(claim.topic)
                if known is None:
                    labels = (("topic", claim.topic),)
                    histogram = self._histogram("millgate_wait_seconds", labels)
                    known = self._claims[claim.topic] = ("millgate_claims_total", labels), histogram
                key, histogram = known
                values[key] = values.get(key, 0.0) + 1.0
                histogram.observe(claim.age)

    def ended(self, run: Run, outcome: str, seconds: float | None) -> None:
        """One run's end."""
        self.ended_all([(run, outcome, seconds)])

    def ended_all(self, ends: Iterable[tuple[Run, str, float | None]]) -> None:
        """Ends of runs: the outcome in a word, and how long each took."""
        values = self._values
        with self._lock:
            for run, outcome, seconds in ends:
                topic, task = run.claim.topic, run.task
                known = self._ends.get((topic, task, outcome))
                if known is None:
                    known = self._ends[topic, task, outcome] = self._end(topic, task, outcome)
                key, histogram = known
                values[key] = values.get(key, 0.0) + 1.0
                if seconds is not None:
                    histogram.observe(seconds)

    def _end(self, topic: str, task: str, outcome: str) -> tuple[tuple[str, Labels], Histogram]:
        labels = (("topic", topic), ("task", task))
        histogram = self._histogram("millgate_task_seconds", labels)
        return ("millgate_tasks_total", (*labels, ("outcome", outcome))), histogram

    def _histogram(self, name: str, labels: Labels) -> Histogram:
        return self._histograms.setdefault((name, labels), Histogram())

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """A counter's values by one label, for the status."""
        with self._lock:
            return {
                dict(labels)[label]: int(value)
                for (known, labels), value in self._values.items()
                if known == name
            }

    def text(self) -> str:
        """All of it, in Prometheus' text format."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        said: set[str] = set()
        for (name, labels), value in sorted(self._values.items()):
            yield from _head(name, "counter" if name.endswith("_total") else "gauge", said)
            yield f"{name}{_braces(labels)} {value:.10g}"
        for (name, labels), histogram in sorted(self._histograms.items(), key=lambda item: item[0]):
            if not histogram.count:
                continue
            yield from _head(name, "histogram", said)
            total = 0
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), histogram.counts, strict=True):
                total += count
                yield f"{name}_bucket{_braces((*labels, ('le', bound)))} {total}"
            yield f"{name}_sum{_braces(labels)} {histogram.sum:.10g}"
            yield f"{name}_count{_braces(labels)} {histogram.count}"


def _head(name: str, kind: str, said: set[str]) -> Iterator[str]:
    if name not in said:
        said.add(name)
        yield f"# HELP {name} {_HELP.get(name, name)}"
        yield f"# TYPE {name} {kind}"


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
