"""Connections to RabbitMQ: made to any node of the cluster, checked for version, and their errors told apart."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pika
from pika import exceptions
from pika.adapters.utils import connection_workflow

from millgate.brokers.address import Address
from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.greeting import foreign
from millgate.brokers.rabbitmq.url import Target
from millgate.clock import Clock
from millgate.errors import (
    BrokerRefused,
    BrokerTimeout,
    MillgateError,
    VersionUnsupported,
)

T = TypeVar("T")

OLDEST: Final = (3, 9)
#: What the driver raises when a connection or a channel ends, or cannot be made.
LOST: Final = (exceptions.AMQPError, connection_workflow.AMQPConnectorException, OSError)
_SHORTEST: Final = 0.1

# The driver logs each error that it also raises, with its traceback; whoever gets the error says what there is to say.
logging.getLogger("pika").setLevel(logging.CRITICAL)


def connect(target: Target, name: str, clock: Clock, end: float) -> Any:
    """A connection (pika.BlockingConnection) before `end` (monotonic seconds); raises as `first`."""
    connection: Any = first(target, name, clock, end, pika.BlockingConnection)
    inner = connection._impl  # noqa: SLF001 -- the driver shows neither its frames nor what the server said of itself
    in_one_write(inner)
    try:
        check(inner, target)
    except VersionUnsupported:
        connection.close()
        raise
    return connection


def first(
    target: Target,
    name: str,
    clock: Clock,
    end: float,
    make: Callable[[pika.ConnectionParameters], T],
) -> T:
    """What `make` makes of the first node that takes a connection before `end` (monotonic seconds).

    `name` is what the server's administrators see. Raises BrokerUnavailable, BrokerTimeout, AuthFailed, TLSFailed,
    ForeignPeer, VersionUnsupported, BrokerRefused for a virtual host that is not there.
    """
    addresses = random.sample(target.addresses, len(target.addresses))
    problem: MillgateError = BrokerTimeout(f"{target.endpoint}: no time left to connect")
    for number, address in enumerate(addresses):
        # One that is silent leaves time for the next.
        left = (end - clock.monotonic()) / (len(addresses) - number)
        if left <= 0:
            break
        try:
            return make(_parameters(target, address, name, max(left, _SHORTEST)))
        except LOST as error:
            problem = refusals.connecting(error, target.endpoint)
            if isinstance(problem, BrokerTimeout) and target.tls is None and foreign(address):
                problem = refusals.foreign(target.endpoint)
            if isinstance(problem, BrokerRefused):
                raise problem from error
    raise problem


def check(inner: Any, target: Target) -> None:
    """Raise VersionUnsupported for a server that is too old; `inner` is a connection that is open."""
    said = version(inner)
    numbers = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if numbers < OLDEST:
        raise VersionUnsupported(
            f"{target.endpoint}: RabbitMQ {said or 'of unknown version'} has no streams, in which the journal is kept;"
            f" use {OLDEST[0]}.{OLDEST[1]} or newer"
        )


def version(inner: Any) -> str:
    """The server's version, as it says it."""
    said = (inner.server_properties or {}).get("version", "")
    return said.decode() if isinstance(said, bytes) else str(said)


def in_one_write(inner: Any) -> None:
    """Let a message leave in one piece.

    The driver writes its three frames one by one, each a system call and most often a packet: two thirds of what
    a small message costs both ends. There is no public way to say so; without this one, all works the same.
    """
    emit = getattr(inner, "_output_marshaled_frames", None)
    if emit is not None:
        inner._output_marshaled_frames = lambda frames: emit([b"".join(frames)])  # noqa: SLF001


def _parameters(
    target: Target, address: Address, name: str, seconds: float
) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        host=address.host,
        port=address.port,
        virtual_host=target.vhost,
        credentials=pika.PlainCredentials(target.user, target.password),
        ssl_options=None if target.tls is None else pika.SSLOptions(target.tls, address.host),
        heartbeat=target.heartbeat,
        socket_timeout=seconds,
        stack_timeout=seconds,
        connection_attempts=1,
        client_properties={"connection_name": name, "product": "Millgate"},
    )
