"""taskiq: `enqueue URL N`, `worker URL CHILDREN`, on a Redis stream."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from counter import bump
from taskiq_redis import RedisStreamBroker

URL = os.environ.get("PEER_BROKER", "")
broker = RedisStreamBroker(url=URL, queue_name="peer-taskiq") if URL else None

if broker is not None:

    @broker.task(task_name="noop")
    async def noop() -> None:
        bump()


async def enqueue(tasks: int) -> None:
    import taskiq_app  # this file again, now that its server is known

    await taskiq_app.broker.startup()
    for _ in range(tasks):
        await taskiq_app.noop.kiq()
    await taskiq_app.broker.shutdown()


def work(children: str) -> None:
    program = str(Path(sys.executable).with_name("taskiq"))
    os.execv(program, [program, "worker", "taskiq_app:broker", "--workers", children])


if __name__ == "__main__":
    verb, url, number = sys.argv[1:4]
    os.environ["PEER_BROKER"] = url
    if verb == "enqueue":
        asyncio.run(enqueue(int(number)))
    else:
        work(number)
