"""The app whose task does nothing, for `benchmarks.cost`: children import it alone, as they would a user's module."""

from __future__ import annotations

from millgate.app import App

app = App()


@app.task(name="noop", topic="cost", result_ttl=0)
def noop() -> None:
    """Nothing."""
