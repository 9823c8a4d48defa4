"""Procrastinate: `enqueue URL N CONCURRENCY`, `worker URL CHILDREN CONCURRENCY`."""

from __future__ import annotations

import asyncio
import sys

import procrastinate
from counter import bump

BATCH = 500


def make(url: str) -> procrastinate.App:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="noop", queue="default")
    async def noop() -> None:
        bump()

    return app


async def enqueue(url: str, tasks: int) -> None:
    app = make(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, tasks, BATCH):
            calls = [{} for _ in range(min(BATCH, tasks - start))]
            await app.tasks["noop"].batch_defer_async(*calls)


async def work(url: str, concurrency: int) -> None:
    app = make(url)
    async with app.open_async():
        await app.run_worker_async(
            queues=["default"], concurrency=concurrency, delete_jobs="always"
        )


if __name__ == "__main__":
    verb, url, number, concurrency = sys.argv[1:5]
    asyncio.run(enqueue(url, int(number)) if verb == "enqueue" else work(url, int(concurrency)))
