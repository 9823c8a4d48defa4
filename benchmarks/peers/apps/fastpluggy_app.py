"""FastPluggy tasks_worker on its local broker: `enqueue` does nothing, `worker` queues $TASKS and runs them.

Its queue lives and dies with the process that made it, so one process must do both. It runs tasks in threads.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import uuid
from pathlib import Path

TOPIC = "bench"
THREADS = 8


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def work(tasks: int) -> None:
    folder = Path(os.environ["COUNTER"]).parent
    os.environ.update(
        BROKER_TYPE="local",
        STORE_TASK_DB="false",
        DATABASE_URL=f"sqlite:///{folder}/core.db",
    )
    from loguru import logger

    logger.remove()
    import fastpluggy.fastpluggy  # noqa: F401 -- the plug-in cannot be imported before it
    from counter import bump
    from fastpluggy.core.models_tools import shared  # noqa: F401 -- likewise
    from fastpluggy_plugin.tasks_worker.broker.local import LocalBroker
    from fastpluggy_plugin.tasks_worker.core.executor import TaskExecutor

    def handle(message: object) -> bool:  # noqa: ARG001 -- less than it does for a real task
        bump()
        return True

    broker = LocalBroker(address=free_address())
    broker.setup()
    broker.wait_ready()
    broker.ensure_topic(TOPIC)
    for number in range(tasks):
        broker.publish(TOPIC, payload(number), {"type": "task"})
    executor = TaskExecutor(
        broker=broker,
        topics=[TOPIC],
        handler=handle,
        worker_id="bench",
        max_workers=THREADS,
        poll_interval=0.02,
    )
    executor.start_executor()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        time.sleep(1)


def payload(number: int) -> dict[str, object]:
    return {
        "task_id": str(uuid.uuid4()),
        "task_name": "noop",
        "func_name": "__main__:noop",
        "args": [number],
        "kwargs": {},
        "topic": TOPIC,
        "extra_context": {},
        "allow_concurrent": True,
        "max_retries": 0,
        "retry_delay": 0,
    }


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        work(int(os.environ["TASKS"]))
