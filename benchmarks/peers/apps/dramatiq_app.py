"""Dramatiq: `enqueue URL N`, `worker URL CHILDREN`, on Redis or RabbitMQ, with its eight threads a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dramatiq
from counter import bump

URL = os.environ.get("PEER_BROKER", "")
if URL.startswith("redis"):
    from dramatiq.brokers.redis import RedisBroker

    dramatiq.set_broker(RedisBroker(url=URL))
elif URL:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    dramatiq.set_broker(RabbitmqBroker(url=URL, confirm_delivery=True))


@dramatiq.actor(queue_name="peer-dramatiq")
def noop() -> None:
    bump()


def enqueue(tasks: int) -> None:
    import dramatiq_app  # this file again, now that its server is known

    for _ in range(tasks):
        dramatiq_app.noop.send()


def work(children: str) -> None:
    program = str(Path(sys.executable).with_name("dramatiq"))
    os.execv(program, [program, "dramatiq_app", "-p", children, "-t", "8"])


if __name__ == "__main__":
    verb, url, number = sys.argv[1:4]
    os.environ["PEER_BROKER"] = url
    if verb == "enqueue":
        enqueue(int(number))
    else:
        work(number)
