"""The worker's broker with a watch in hand: how long each call took, by verb, whether it was answered or failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from millgate.brokers.base import Broker
from millgate.clock import Clock
from millgate.runtime.metrics import Metrics

#: Verbs that are a round trip; a wait for work is none.
VERBS: Final = frozenset(
    {"register", "claim", "settle", "extend", "publish", "states", "progress", "acquire", "renew"}
)


class Timed:
    """Has whatever the broker has."""

    def __init__(self, broker: Broker, metrics: Metrics, clock: Clock) -> None:
        self._broker = broker
        self._metrics = metrics
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._broker, name)
        if name not in VERBS:
            return found
        call = self._timed(name, found)
        setattr(self, name, call)  # from now on it is found at once
        return call

    def _timed(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        monotonic, observe = self._clock.monotonic, self._metrics.observe

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = monotonic()
            try:
                return call(*args, **kwargs)
            finally:
                observe("millgate_broker_seconds", monotonic() - began, verb=verb)

        return timed


def timed(broker: Broker, metrics: Metrics, clock: Clock) -> Broker:
    """The same broker, its calls counted and timed in `millgate_broker_seconds`."""
    return cast("Broker", Timed(broker, metrics, clock))
