"""Connections to RabbitMQ: made to any node of the cluster, checked for version, and their errors told apart."""

from __future__ import annotations

import logging
import random
import re
from typing import Any, Final

import pika
from pika import exceptions

from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.url import Address, Target
from millgate.clock import Clock
from millgate.errors import (
    AuthFailed,
    BrokerRefused,
    BrokerTimeout,
    MillgateError,
    TLSFailed,
    VersionUnsupported,
)

OLDEST: Final = (3, 9)
#: What the driver raises when a connection or a channel ends, or cannot be made.
LOST: Final = (exceptions.AMQPError, OSError)
_SHORTEST: Final = 0.1

# The driver logs each error that it also raises, with its traceback; whoever gets the error says what there is to say.
logging.getLogger("pika").setLevel(logging.CRITICAL)


def connect(target: Target, name: str, clock: Clock, end: float) -> Any:
    """A connection (pika.BlockingConnection) before `end` (monotonic seconds).

    `name` is what the server's administrators see. Raises BrokerUnavailable, BrokerTimeout, AuthFailed, TLSFailed,
    ForeignPeer, VersionUnsupported, BrokerRefused for a virtual host that is not there.
    """
    addresses = random.sample(target.addresses, len(target.addresses))
    problem: MillgateError = BrokerTimeout(f"{target.endpoint}: no time left to connect")
    for address in addresses:
        left = end - clock.monotonic()
        if left <= 0:
            break
        try:
            made = _open(target, address, name, max(left, _SHORTEST))
            return _in_one_write(_checked(made, target))
        except (AuthFailed, TLSFailed, VersionUnsupported):
            raise
        except LOST as error:
            problem = refusals.connecting(error, target.endpoint)
            if isinstance(problem, BrokerRefused):
                raise problem from error
    raise problem


def version(connection: Any) -> str:
    """The server's version, as it says it."""
    # The driver has no public way to what the server said when it was greeted.
    said = (connection._impl.server_properties or {}).get("version", "")  # noqa: SLF001
    return said.decode() if isinstance(said, bytes) else str(said)


def _open(target: Target, address: Address, name: str, seconds: float) -> Any:
    tls = None if target.tls is None else pika.SSLOptions(target.tls, address.host)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host=address.host,
            port=address.port,
            virtual_host=target.vhost,
            credentials=pika.PlainCredentials(target.user, target.password),
            ssl_options=tls,
            heartbeat=target.heartbeat,
            socket_timeout=seconds,
            stack_timeout=seconds,
            connection_attempts=1,
            client_properties={"connection_name": name, "product": "Millgate"},
        )
    )


def _in_one_write(connection: Any) -> Any:
    """Let a message leave in one piece.

    The driver writes its three frames one by one, each a system call and most often a packet: two thirds of what
    a small message costs both ends. There is no public way to say so; without this one, all works the same.
    """
    inner = connection._impl  # noqa: SLF001
    emit = getattr(inner, "_output_marshaled_frames", None)
    if emit is not None:
        inner._output_marshaled_frames = lambda frames: emit([b"".join(frames)])  # noqa: SLF001
    return connection


def _checked(connection: Any, target: Target) -> Any:
    said = version(connection)
    numbers = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if numbers < OLDEST:
        connection.close()
        raise VersionUnsupported(
            f"{target.endpoint}: RabbitMQ {said or 'of unknown version'} has no streams, in which the journal is kept;"
            f" use {OLDEST[0]}.{OLDEST[1]} or newer"
        )
    return connection
