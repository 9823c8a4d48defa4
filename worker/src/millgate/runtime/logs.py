"""The worker's log: one line an event, JSON or text, written by its own thread: a stuck reader holds nobody."""

from __future__ import annotations

import json
import logging
import os
import select
import threading
from collections import deque
from datetime import UTC, datetime
from typing import Any, Final

from millgate.clock import Clock
from millgate.runtime.ledger import Run
from millgate.runtime.marks import Past
from millgate.runtime.mask import Mask

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
#: Lines that may wait for a slow reader; what comes on top is counted and left out.
_BOUND: Final = 10_000
_BOUND_BYTES: Final = 4 * 2**20
#: Characters of one field; a traceback fits.
_LONGEST: Final = 20_000


class Journal:
    """Thread-safe. `say` never blocks and never raises, and no field of a line has what `mask` knows to be secret."""

    def __init__(
        self,
        clock: Clock,
        *,
        json_lines: bool,
        level: str,
        descriptor: int = 2,
        mask: Mask | None = None,
    ) -> None:
        self.mask = mask or Mask()
        self._clock = clock
        self._json = json_lines
        self._level = LEVELS[level]
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._bytes = 0  # of the lines that wait
        self._dropped = 0
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def enabled(self, level: str) -> bool:
        """Whether lines of this level are written."""
        return LEVELS[level] >= self._level

    def say(self, level: str, event: str, run: Run | Past | None = None, **fields: Any) -> None:
        """Write one event; `run` adds task, id, topic and attempt."""
        if LEVELS[level] < self._level:
            return
        named = _about(run) if run is not None else {}
        clean = {key: self._clean(value) for key, value in fields.items()}
        line = self._format(level, event, named | clean)
        with self._wake:
            if len(self._lines) >= _BOUND or self._bytes + len(line) > _BOUND_BYTES:
                self._dropped += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            self._wake.notify()

    def close(self, timeout: float = 2.0) -> None:
        """Write what waits, at most so long."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(timeout)

    def _clean(self, value: Any) -> Any:
        return _cut(self.mask.text(value)) if isinstance(value, str) else value

    def _format(self, level: str, event: str, fields: dict[str, Any]) -> bytes:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        if self._json:
            record = {"time": moment.isoformat(timespec="milliseconds"), "level": level}
            text = json.dumps(record | {"event": event} | fields, default=str, ensure_ascii=False)
        else:
            below = fields.pop("traceback", None) or ""
            words = " ".join(f"{key}={_word(value)}" for key, value in fields.items())
            text = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03} {level:<7} {event} {words}".rstrip()
            text = "\n  ".join((text, *below.splitlines()))
        return text.encode("utf-8", "replace") + b"\n"

    def _write(self) -> None:
        while True:
            with self._wake:
                while not self._lines and not self._closing:
                    self._wake.wait()
                if not self._lines:
                    return
                lines = b"".join(self._lines)
                self._lines.clear()
                self._bytes = 0
                dropped, self._dropped = self._dropped, 0
            if dropped:
                lines += self._format("warning", "log lines left out", {"count": dropped})
            try:
                _write_all(self._descriptor, lines)
            except OSError:
                continue  # nobody reads any more; the work goes on


class Bridge(logging.Handler):
    """Brings what libraries log, drivers mostly, into the journal as lines of its kind."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._journal.say(level, "library", logger=record.name, text=record.getMessage())


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # somebody who shares the stream has made it so
            select.select([], [descriptor], [], 1.0)


def _about(run: Run | Past) -> dict[str, Any]:
    if isinstance(run, Past):
        return {"task": run.task, "id": run.id, "topic": run.topic, "attempt": run.attempt}
    claim = run.claim
    return {"task": run.task, "id": claim.id, "topic": claim.topic, "attempt": claim.attempt}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _word(value: Any) -> str:
    if value is None:
        return "?"  # unknown, as in every table
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "\n\t=') else text
