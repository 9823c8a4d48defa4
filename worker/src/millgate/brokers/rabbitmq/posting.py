"""Messages of which each is confirmed before the next, on a channel of their own and by the shortest way."""

from __future__ import annotations

from typing import Any, Final

from pika import exceptions

from millgate.brokers.rabbitmq.express import Express
from millgate.brokers.rabbitmq.packets import Arrival, Kind, Properties
from millgate.brokers.rabbitmq.pump import Pump
from millgate.brokers.rabbitmq.vigil import SLOW, Vigil

_PERSISTENT: Final = Properties().pack(persistent=True)


class Posting:
    """One channel with confirmations."""

    def __init__(self, connection: Any, express: Express, pump: Pump, vigil: Vigil) -> None:
        """`connection` is the driver's, whose way `express` is, `pump` what waits on it, and `vigil` over it."""
        self._channel = connection.channel()
        self._channel.confirm_delivery()
        self._express = express
        self._pump = pump
        self._vigil = vigil
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
        if not self._pump.until(self._over, SLOW) or not self._done():
            self._wait_on(queue)
        if self._bad is Kind.RETURNED:
            raise exceptions.UnroutableError([])
        if self._bad is not None:
            raise exceptions.NackError([])

    def _wait_on(self, queue: str) -> None:
        """Wait as the driver itself does: it raises what keeps the confirmation from coming."""
        self._pump.check()
        channel, why = self._channel, self._channel._closing_reason  # noqa: SLF001
        if isinstance(why, exceptions.ChannelClosedByBroker):
            raise why
        with self._vigil.over(queue, SLOW):
            channel._flush_output(self._done)  # noqa: SLF001

    def _over(self) -> bool:
        return self._confirmed >= self._sent or self._channel.is_closed

    def _done(self) -> bool:
        return self._confirmed >= self._sent

    def _came(self, arrival: Arrival) -> None:
        if arrival.kind is Kind.RETURNED:  # its confirmation follows
            self._bad = arrival.kind
            return
        self._confirmed = max(self._confirmed, arrival.tag)
        if arrival.kind is Kind.REFUSED:
            self._bad = arrival.kind
