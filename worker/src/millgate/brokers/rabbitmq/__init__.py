"""Queues on RabbitMQ 3.9 or newer: `amqp://`, `amqps://`. A brokerd decides; the server carries calls and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millgate.brokers.rabbitmq.url import parse
from millgate.clock import SystemClock
from millgate.settings import environment

if TYPE_CHECKING:
    from millgate.brokers.base import Broker


def open(url: str, queue: str, deadline: float) -> Broker:  # noqa: A001 -- what every broker's module offers
    """The broker behind a URL; nothing is connected before the first verb. Raises InvalidSettings."""
    from millgate.brokers.rabbitmq.broker import RabbitBroker

    return RabbitBroker(parse(url, environment()), queue, deadline, SystemClock())
