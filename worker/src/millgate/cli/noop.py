"""The app that `millgate bench` runs: a task that leaves one byte, and one that says how long it took to get here.

It is copied out and started as a user's module would be, so that children hold what a user's children hold.
"""

from __future__ import annotations

import os
from functools import cache

from millgate.app import App
from millgate.clock import SystemClock
from millgate.settings import environment

#: Names the file that grows by a byte with each task, and gets a line with each stamp.
COUNTER = "MILLGATE_BENCH_COUNTER"

app = App()
_clock = SystemClock()


@cache
def _counter() -> int:
    return os.open(environment()[COUNTER], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)


@app.task(name="noop", topic="bench", result_ttl=0)
def noop() -> None:
    """One byte."""
    os.write(_counter(), b".")


@app.task(name="stamp", topic="bench", result_ttl=0)
def stamp(sent: float) -> None:
    """One line: seconds from `sent` (since 1970) until now."""
    os.write(_counter(), f"{_clock.now() - sent:.6f}\n".encode())
