"""PgQueuer: `enqueue URL N BATCH`, `worker URL CHILDREN BATCH`. It runs tasks in the process that claims them."""

from __future__ import annotations

import asyncio
import signal
import sys

import asyncpg
from counter import bump
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

CHUNK = 1000


async def enqueue(url: str, tasks: int) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    for start in range(0, tasks, CHUNK):
        count = min(CHUNK, tasks - start)
        await queries.enqueue(["noop"] * count, [None] * count, [0] * count)
    await connection.close()


async def work(url: str, batch: int) -> None:
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:  # noqa: ARG001 -- it insists on the argument
        bump()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    await queuer.run(batch_size=batch)


if __name__ == "__main__":
    verb, url, number, batch = sys.argv[1:5]
    asyncio.run(enqueue(url, int(number)) if verb == "enqueue" else work(url, int(batch)))
