"""The RabbitMQ broker: its verbs as calls that the server carries to the queue's brokerd."""

from __future__ import annotations

from typing import Final

from millgate.brokers.base import Server
from millgate.brokers.rabbitmq.dialer import Dialer
from millgate.brokers.rabbitmq.url import Target
from millgate.brokers.served.broker import ServedBroker
from millgate.brokers.served.session import Session
from millgate.clock import Clock

#: Seconds that a wait is parked before it is asked again: a brokerd that ended took it along.
_PARK: Final = 2.0
#: Seconds after which a call is sent again, to whoever serves the queue then.
_PATIENCE: Final = 1.0


class RabbitBroker(ServedBroker):
    """One queue on a RabbitMQ server or cluster. Safe to use from several threads, and in forked children."""

    def __init__(self, target: Target, queue: str, deadline: float, clock: Clock) -> None:
        """Nothing is connected before the first verb; `deadline` is the most seconds that one call may take."""
        self._target = target
        self._dialer = Dialer(target, queue, clock)
        session = Session(
            self._dialer, queue, deadline, clock, park=_PARK, patience=min(_PATIENCE, deadline / 2)
        )
        super().__init__(session)

    def setup(self) -> None:
        """Have a brokerd serve the queue, which makes what is stored: join it, or start it where that is allowed."""
        self._session.call("server")

    def server(self) -> Server:
        """What the brokerd says of itself and of the server."""
        info = self._session.call("server")
        info["brokerd"] = info.pop("version")
        return Server(
            kind="rabbitmq",
            endpoint=self._target.endpoint,
            version=info.pop("server"),
            schema=info.pop("schema"),
            detail=info,
        )

    def close(self) -> None:
        """Close the connection; a wait_for_work in another thread returns."""
        super().close()
        self._dialer.close()
