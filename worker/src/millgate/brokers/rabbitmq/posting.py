"""Messages of which each is confirmed before the next, on a channel of their own and by the shortest way."""

from __future__ import annotations

from typing import Any, Final

from pika import exceptions

from millgate.brokers.rabbitmq.express import Express
from millgate.brokers.rabbitmq.packets import Arrival, Kind, Properties

_PERSISTENT: Final = Properties().pack(persistent=True)


class Posting:
    """One channel with confirmations."""

    def __init__(self, connection: Any, express: Express) -> None:
        """`connection` is the driver's, whose way `express` is."""
        self._channel = connection.channel()
        self._channel.confirm_delivery()
        self._express = express
        self._sent = self._confirmed = 0
        self._bad: Kind | None = None
        express.watch(self._channel.channel_number, self._came)

    def post(self, queue: str, body: bytes) -> None:
        """Put a message into a queue; on return the server has confirmed it.

        Raises UnroutableError when there is no such queue, NackError, and the driver's other errors.
        """
        self._sent += 1
        self._bad = None
        number = self._channel.channel_number
        self._express.publish(number, queue, body, _PERSISTENT, mandatory=True)
        self._channel._flush_output(self._done)  # noqa: SLF001 -- what the driver itself waits with
        if self._bad is Kind.RETURNED:
            raise exceptions.UnroutableError([])
        if self._bad is not None:
            raise exceptions.NackError([])

    def _done(self) -> bool:
        return self._confirmed >= self._sent

    def _came(self, arrival: Arrival) -> None:
        if arrival.kind is Kind.RETURNED:  # its confirmation follows
            self._bad = arrival.kind
            return
        self._confirmed = max(self._confirmed, arrival.tag)
        if arrival.kind is Kind.REFUSED:
            self._bad = arrival.kind
