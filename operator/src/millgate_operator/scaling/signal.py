"""Rates and service times out of successive stats: exponentially weighted, forgetting nothing abruptly. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp, inf
from typing import Final

from millgate.queues import Subscription
from millgate.stats import Stats, TopicStats

FAST: Final = 30.0
SLOW: Final = 180.0


@dataclass(frozen=True, slots=True)
class TopicSignal:
    """What is known of one topic's flow. Rates per second."""

    started: int
    ended: int
    fast: float = 0.0
    slow: float = 0.0
    busy: float = 0.0  # mean of what ran
    end_rate: float = 0.0
    samples: int = 1

    @property
    def rate(self) -> float:
        """First attempts that begin per second: the larger of the short and the long view."""
        return max(self.fast, self.slow)

    @property
    def service(self) -> float | None:
        """Mean seconds of a run by Little's law; infinite while things run and none has ended; None: unknown."""
        if self.end_rate < 1e-9:
            return None if self.busy < 1e-6 else inf
        return max(self.busy / self.end_rate, 0.001)


@dataclass(frozen=True, slots=True)
class Signal:
    """The last reading and what was learnt from those before it."""

    at: float
    topics: Mapping[str, TopicSignal] = field(default_factory=dict)


def known(stats: Stats | None, subscription: Subscription) -> dict[str, TopicStats] | None:
    """The pool's topics when every number that a decision needs is there; otherwise None."""
    if stats is None:
        return None
    mine = {name: topic for name, topic in stats.topics.items() if subscription.matches(name)}
    complete = all(
        None not in (topic.claimable, topic.leased, topic.started, topic.completed, topic.failed)
        for topic in mine.values()
    )
    return mine if complete else None


def learn(signal: Signal | None, topics: Mapping[str, TopicStats], now: float) -> Signal:
    """The signal after one more reading at `now` (a clock that never steps back)."""
    if signal is None:
        return Signal(now, {name: _first(topic) for name, topic in topics.items()})
    passed = now - signal.at
    if passed <= 0:
        return signal
    return Signal(
        now,
        {
            name: _next(signal.topics[name], topic, passed)
            if name in signal.topics
            else _first(topic)
            for name, topic in topics.items()
        },
    )


def _counts(topic: TopicStats) -> tuple[int, int]:
    return topic.started or 0, (topic.completed or 0) + (topic.failed or 0)


def _first(topic: TopicStats) -> TopicSignal:
    return TopicSignal(*_counts(topic))


def _next(old: TopicSignal, topic: TopicStats, passed: float) -> TopicSignal:
    started, ended = _counts(topic)
    fast, slow = 1 - exp(-passed / FAST), 1 - exp(-passed / SLOW)
    # counters never step back; where one does, the queue was made anew and nothing has flowed yet
    rate = max(0, started - old.started) / passed
    end_rate = max(0, ended - old.ended) / passed
    return replace(
        old,
        started=started,
        ended=ended,
        fast=old.fast + fast * (rate - old.fast),
        slow=old.slow + slow * (rate - old.slow),
        busy=old.busy + slow * ((topic.leased or 0) - old.busy),
        end_rate=old.end_rate + slow * (end_rate - old.end_rate),
        samples=old.samples + 1,
    )
