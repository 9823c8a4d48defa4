"""tarsk: `enqueue URL N`, `worker URL CHILDREN`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from counter import bump
from tarsk import App, group

CHUNK = 1000

app = App(broker=os.environ.get("TARSK_BROKER"))


@app.task(name="noop")
async def noop() -> None:
    bump()


def enqueue(tasks: int) -> None:
    import tarsk_app  # this file again, under the name that the worker knows

    for start in range(0, tasks, CHUNK):
        count = min(CHUNK, tasks - start)
        group(tarsk_app.noop.si() for _ in range(count)).send()


def work(url: str, children: str) -> None:
    program = str(Path(sys.executable).with_name("tarsk"))
    flags = ["worker", "--app", "tarsk_app:app", "--broker", url, "--children", children]
    os.execv(program, [program, *flags])


if __name__ == "__main__":
    verb, url, number = sys.argv[1:4]
    os.environ["TARSK_BROKER"] = url.replace("postgresql://", "postgres://")
    if verb == "enqueue":
        enqueue(int(number))
    else:
        work(os.environ["TARSK_BROKER"], number)
