"""An app with tasks of a few bytes, and some that want more than their pod has."""

from __future__ import annotations

import time

from millgate import App

app = App()
MEGABYTE = 2**20


@app.task
def double(number: int) -> int:
    time.sleep(0.05)
    return 2 * number


@app.task(retries=1, backoff={"initial": 0.1, "max": 0.1})
def grow(megabytes: int) -> None:
    """A megabyte each millisecond."""
    held = []
    for _ in range(megabytes):
        held.append(b"g" * MEGABYTE)
        time.sleep(0.001)
    time.sleep(5)


@app.task(retries=0)
def gulp(megabytes: int) -> int:
    """All at once, every page of it touched."""
    return len(b"g" * (megabytes * MEGABYTE))
