"""An app whose tasks write down each start and each end in the database, outside of the queue's own counts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

from millgate import App
from millgate.context import Context, current

app = App()
DATABASE = Path("/etc/millgate/broker/uri")


def note(task: str, event: str) -> None:
    """One line in the ledger."""
    with psycopg.connect(DATABASE.read_text(encoding="utf-8"), autocommit=True) as connection:
        connection.execute(
            "INSERT INTO ledger (task, event, pod) VALUES (%s, %s, %s)",
            (task, event, os.environ["MILLGATE_NAME"]),
        )


@app.task(topic="sums")
def square(number: int) -> int:
    return number * number


@app.task(topic="naps", retries=5)
def nap(seconds: float) -> int:
    """Sleep, and answer the number of this start."""
    context: Context = current()
    note(context.id, "start")
    time.sleep(seconds)
    note(context.id, "end")
    return context.attempt
