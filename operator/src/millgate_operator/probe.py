"""The app of the chart's test: one task, run by workers from the operator's own image."""

from __future__ import annotations

from millgate.app import App

app = App()


@app.task(name="probe", topic="probe")
def probe(text: str) -> str:
    """Give the text back, the other way round."""
    return text[::-1]
