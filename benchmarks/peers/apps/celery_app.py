"""Celery: `enqueue URL N`, `worker URL CHILDREN`. Acknowledged late, results ignored: what it loses least with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from celery import Celery
from counter import bump

app = Celery("peer", broker=os.environ.get("PEER_BROKER"))
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    task_default_queue="peer-celery",
)


@app.task(name="noop")
def noop() -> None:
    bump()


def enqueue(tasks: int) -> None:
    import celery_app  # this file again, under the name that the worker knows

    with celery_app.app.producer_pool.acquire(block=True) as producer:
        for _ in range(tasks):
            celery_app.noop.apply_async(producer=producer)


def work(children: str) -> None:
    program = str(Path(sys.executable).with_name("celery"))
    quiet = ["-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    os.execv(program, [program, "-A", "celery_app", "worker", "-c", children, *quiet])


if __name__ == "__main__":
    verb, url, number = sys.argv[1:4]
    os.environ["PEER_BROKER"] = url
    if verb == "enqueue":
        enqueue(int(number))
    else:
        work(number)
