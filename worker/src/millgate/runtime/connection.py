"""The worker's broker: opened by its URL or file, opened anew when the file changes; errors are counted and paced."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from millgate.brokers import open_broker, redact
from millgate.brokers.base import Broker
from millgate.clock import Clock
from millgate.errors import BrokerError, InvalidSettings, MillgateError
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.runtime.timed import timed

_FIRST: Final = 0.2
_LONGEST: Final = 5.0


def pause_after(failures: int, draw: float) -> float:
    """Seconds to wait after so many failures in a row: doubling, capped, half of it by chance. Pure."""
    step = min(_LONGEST, _FIRST * 2.0 ** min(failures - 1, 10))
    return step * (0.5 + draw / 2)


class Connection:
    """Thread-safe."""

    def __init__(
        self,
        source: Callable[[], str],
        queue: str,
        *,
        journal: Journal,
        metrics: Metrics,
        clock: Clock,
        broker: Broker | None = None,
    ) -> None:
        """`source` answers the URL as it is now; `broker`: one that is open already, used as it is."""
        self._source = source
        self._queue = queue
        self._journal = journal
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._url = "" if broker is not None else source()
        if self._url:
            journal.mask.learn(self._url)
        self._useless: str | None = None  # what the source said last, if it can be no address
        self._given = broker is not None
        self._kind = type(broker).__name__
        self._broker = self._open(self._url) if broker is None else timed(broker, metrics, clock)
        self._failures = 0
        self._up = True
        self._down_since = 0.0  # monotonic

    @property
    def broker(self) -> Broker:
        """The broker, as it is now."""
        return self._broker

    @property
    def name(self) -> str:
        """Its URL without secrets."""
        return redact(self._url) if self._url else self._kind

    def answered(self) -> None:
        """A call was answered."""
        if self._failures:
            self._failures = 0
        if not self._up:
            self._up = True
            self._metrics.set("millgate_broker_up", 1)
            self._journal.say("info", "broker is back", broker=self.name)

    def failed(self, error: BrokerError) -> float:
        """A call failed; answers the seconds to wait. The log says it once an outage, the metric each time."""
        self._failures += 1
        self._metrics.add("millgate_broker_errors_total", reason=error.reason)
        self._metrics.set("millgate_broker_up", 0)
        if self._up or self._failures % 100 == 0:
            self._journal.say(
                "error", "broker failed", broker=self.name, reason=error.reason, error=str(error)
            )
        if self._up:
            self._down_since = self._clock.monotonic()
        self._up = False
        self._reopen_if_changed()
        return pause_after(self._failures, random.random())  # noqa: S311 -- spreads reconnects

    @property
    def up(self) -> bool:
        """Whether the last call was answered."""
        return self._up

    @property
    def down_for(self) -> float:
        """Seconds since the first of the calls that failed; 0: the last one was answered."""
        return 0.0 if self._up else self._clock.monotonic() - self._down_since

    def _reopen_if_changed(self) -> None:
        """Somebody may have rotated the credentials: the file is read again after each failure."""
        if self._given:
            return
        with self._lock:
            try:
                url = self._source()
            except InvalidSettings:
                return
            if url in {self._url, self._useless}:
                return
            self._journal.mask.learn(url)
            try:
                opened = self._open(url)
            except MillgateError as error:  # half written, perhaps: the next failure reads it again
                self._useless = url
                self._journal.say("error", "broker address cannot be used", error=str(error))
                return
            old, self._broker, self._url = self._broker, opened, url
            self._useless = None
        self._journal.say("info", "broker address changed", broker=self.name)
        old.close()

    def _open(self, url: str) -> Broker:
        return timed(open_broker(url, queue=self._queue), self._metrics, self._clock)

    def close(self) -> None:
        """Close it, unless it was given."""
        if not self._given:
            self._broker.close()


def url_source(url: str, file: str) -> Callable[[], str]:
    """Where the URL comes from: given, or read from a file each time. Raises InvalidSettings."""
    if url:
        return lambda: url
    if not file:
        raise InvalidSettings(
            "no broker: give --broker URL or --broker-file FILE, or set MILLGATE_BROKER, e.g. local://"
        )

    def read() -> str:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSettings(f"--broker-file: cannot read {file}: {error}") from error

    return read
