"""Children started one by one, as a supervisor starts them: from the decision to the end of their first task."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.worker.figures import Figures, quantile
from millgate import codec
from millgate.clock import SystemClock
from millgate.message import Claim, Message
from millgate.runtime import wire
from millgate.runtime.preload import NotYet
from millgate.runtime.processes import become_subreaper
from millgate.runtime.spawn import Spawned, Spawner

COUNT = 60
_TIMEOUT = 30.0


def plain() -> Figures:
    """An interpreter each."""
    return _starts("plain", preload=False)


def forked() -> Figures:
    """Forks of a template that has imported the app."""
    return _starts("forked", preload=True)


def _starts(name: str, *, preload: bool) -> Figures:
    become_subreaper()
    path = [str(Path.cwd()), *(entry for entry in sys.path[1:] if entry)]
    hello = wire.encode(["hello", {"path": path, "app": "nothing:app"}])
    spawner = Spawner(1, hello, SystemClock(), preload=preload)
    took = []
    try:
        for number in range(-2, COUNT):  # the first ones warm the caches
            began, spawned = time.monotonic(), _start(spawner)
            _first_task(spawned, hello)
            if number >= 0:
                took.append(1000 * (time.monotonic() - began))
            _end(spawned)
    finally:
        spawner.close()
    return {f"{name}_p50_ms": quantile(took, 0.5), f"{name}_p99_ms": quantile(took, 0.99)}


def _start(spawner: Spawner) -> Spawned:
    while True:
        try:
            return spawner.start()
        except NotYet:
            time.sleep(0.01)


def _first_task(spawned: Spawned, hello: bytes) -> None:
    reader = wire.Reader(spawned.link.recv_into)
    spawned.link.sendall(hello)
    message = Message(id="m1", topic="cost", task="noop", body=codec.encode_call((), {}))
    claim = Claim("m1", "cost", "token", message.record())
    run = wire.encode(["run", [wire.job(1, claim)]])
    sent = False
    while True:
        for frame in _frames(spawned, reader):
            if frame[0] == "ready" and not sent:
                spawned.link.sendall(run)
                sent = True
            elif frame[0] == "done":
                return
            elif frame[0] != "ready":
                raise SystemExit(f"the child says {frame}")


def _frames(spawned: Spawned, reader: wire.Reader) -> list[Any]:
    if not select.select([spawned.link], [], [], _TIMEOUT)[0]:
        raise SystemExit("the child does not come up")
    frames = reader.read()
    if frames is None:
        raise SystemExit(f"the child has ended: {os.read(spawned.output, 4096).decode()}")
    return frames


def _end(spawned: Spawned) -> None:
    os.kill(spawned.pid, signal.SIGKILL)
    spawned.reap()
    spawned.link.close()
    spawned.table.close()
    os.close(spawned.output)
    os.close(spawned.pidfd)
