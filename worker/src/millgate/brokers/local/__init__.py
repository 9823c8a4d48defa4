"""The broker of one host: brokerd, a process that owns the queues, and clients that speak to it over a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millgate.brokers.local.address import parse
from millgate.settings import environment

if TYPE_CHECKING:
    from millgate.brokers.base import Broker


def open(url: str, queue: str, deadline: float) -> Broker:  # noqa: A001 -- what every broker's module offers
    """The broker behind a `local://` URL; nothing is connected before the first verb. Raises InvalidSettings."""
    # Not before it is needed: brokerd is a part of this package and no client.
    from millgate.brokers.local.broker import LocalBroker

    return LocalBroker(parse(url, environment()), queue, deadline)
