"""The local broker: brokerd started or joined at an address, and its verbs as calls over a socket."""

from __future__ import annotations

import math
from typing import Final

from millgate.brokers.base import Server
from millgate.brokers.local.address import Address
from millgate.brokers.local.link import connect
from millgate.brokers.served.broker import ServedBroker
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.link import Link
from millgate.brokers.served.session import Session
from millgate.clock import Clock, SystemClock
from millgate.errors import BrokerUnavailable
from millgate.shortage import of_files

#: Seconds that a wait over TCP is parked before it is asked again: a connection that died without a word shows.
_PARK: Final = 10.0


class LocalBroker(ServedBroker):
    """One queue of one brokerd. Safe to use from several threads, and in forked children."""

    def __init__(
        self, address: Address, queue: str, deadline: float, clock: Clock | None = None
    ) -> None:
        """Nothing is connected before the first verb; `deadline` is the most seconds that one call may take."""
        self._address = address
        self._clock = clock = clock or SystemClock()

        def dial(caller: Caller, end: float) -> Link:
            soonest = min(end, clock.monotonic() + address.probe_timeout)
            return connect(address, caller, clock, soonest)

        # A socket of this machine cannot lose its other end without notice.
        park = _PARK if address.place.path is None else math.inf
        super().__init__(Session(dial, queue, deadline, clock, park=park))

    def setup(self) -> None:
        """Start brokerd if nobody listens at an address of this machine; otherwise join who does."""
        try:
            from millgate.brokers.local import launch  # with subprocess: not what a producer needs

            launch.ensure(self._address, self._clock, self._session.deadline)
        except OSError as error:  # modules are files too
            why = of_files(error) or error
            raise BrokerUnavailable(f"no broker at {self._address.place}: {why}") from error

    def server(self) -> Server:
        """What brokerd says of itself."""
        info = self._session.call("server")
        return Server(
            kind="local",
            endpoint=f"local://{self._address.place}",
            version=info.pop("version"),
            schema=info.pop("schema"),
            detail=info,
        )
