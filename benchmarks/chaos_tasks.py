"""The app of a chaotic run: a task that writes when it starts and when it ends."""

from __future__ import annotations

import os
import time

from millgate import App

app = App()


def note(word: str, name: str) -> None:
    """One line in one write, so that lines of many processes never mix."""
    ledger = os.open(os.environ["CHAOS_LEDGER"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        os.write(ledger, f"{word} {name} {os.getpid()} {time.time():.6f}\n".encode())
    finally:
        os.close(ledger)


@app.task(name="work", topic="chaos", timeout="60s")
def work(name: str, seconds: float) -> None:
    """Take so long."""
    note("s", name)
    time.sleep(seconds)
    note("e", name)
