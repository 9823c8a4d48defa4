"""An app whose tasks say in the worker's log that they run, outside of the queue's own counts."""

from __future__ import annotations

import time

from millgate import App
from millgate.context import Context, current

app = App()


@app.task(retries=0)
def count(number: int) -> int:
    """Say so, work for a moment, and answer the number of this start."""
    context: Context = current()
    print(f"runs {number}", flush=True)
    time.sleep(0.2)
    return context.attempt
