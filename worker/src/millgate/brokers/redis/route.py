"""Which server to speak to now: the one of the URL, the one that Sentinels name, or the Cluster node of our slot."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from millgate.brokers.address import Address
from millgate.brokers.redis.connection import Connection, Lost, Refused, Strange, connect
from millgate.brokers.redis.url import Target
from millgate.clock import Clock

_ASK_AGAIN: Final = 1.0  # seconds after which Sentinels are asked again
_SENTINEL_ANSWERS: Final = 1.0  # within so many seconds, else the next one is asked
_MOST: Final = 100


class Route:
    """The server of one target. `generation` grows when it becomes another one; connections of older ones are stale."""

    def __init__(self, target: Target, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        self._lock = threading.Lock()
        self._known = list(target.addresses)
        self._sentinels = list(target.addresses)
        self._at = 0
        self._current: Address | None = None
        self._asked = float("-inf")
        #: Masters that step down before the Sentinels know.
        self._demoted: dict[Address, Address] = {}
        self.generation = 0

    def address(self, until: float) -> Address:
        """The server to connect to. Raises Lost when no Sentinel names one."""
        if not self._target.master:
            with self._lock:
                return self._current or self._known[self._at % len(self._known)]
        self.look(until)
        with self._lock:
            if self._current is None:
                raise Lost(f"no Sentinel names a master for {self._target.master!r}")
            return self._current

    def look(self, until: float) -> None:
        """Ask the Sentinels, unless that was done within the last second."""
        if not self._target.master:
            return
        with self._lock:
            if self._clock.monotonic() - self._asked < _ASK_AGAIN:
                return
            self._asked = self._clock.monotonic()
        found = self._ask(until)
        if found is not None:
            self._go(self._demoted.get(found, found))

    def failed(self, address: Address) -> None:
        """A connection to this server ended or failed: ask again, or try the next one."""
        with self._lock:
            self._asked = float("-inf")
            if address in self._demoted.values():
                self._demoted.clear()
            if not self._target.master and self._current in (None, address):
                self._current = None
                self._at += 1

    def demoted(self, address: Address, master: Address) -> None:
        """What Sentinels call the master says that it follows another: they will hear of it too."""
        with self._lock:
            self._demoted.pop(master, None)
            self._demoted[address] = master
        self._go(master)

    def moved(self, to: Address, via: Connection, until: float) -> None:
        """A Cluster says where our slot is; its other nodes are remembered for the day when that one is gone."""
        if not to.host:
            to = Address(via.address.host, to.port)
        self._go(to)
        with suppress(Lost, Refused, Strange):
            nodes = [
                Address((node[0] or via.address.host.encode()).decode(), node[1])
                for slots in via.run("CLUSTER", "SLOTS", until=until)
                for node in slots[2:]
            ]
            with self._lock:
                fresh = [node for node in dict.fromkeys(nodes) if node not in self._known]
                self._known = [*self._known, *fresh][-_MOST:]

    def _go(self, to: Address) -> None:
        with self._lock:
            if self._current != to:
                self._current = to
                self.generation += 1

    def _ask(self, until: float) -> Address | None:
        target = self._target
        share = max((until - self._clock.monotonic()) / (len(target.addresses) + 1), 0.2)
        for address in self._sentinels:
            limit = self._clock.monotonic() + min(share, _SENTINEL_ANSWERS)
            try:
                sentinel = connect(address, target.sentinel_login, target.tls, self._clock, limit)
            except (Lost, Strange):
                continue
            try:
                found = sentinel.run(
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.master, until=limit
                )
            except (Lost, Strange):
                continue
            finally:
                sentinel.close()
            if found:
                with self._lock:  # whoever answered is asked first from now on
                    self._sentinels = [address, *(a for a in target.addresses if a != address)]
                return Address(found[0].decode(), int(found[1]))
        with self._lock:
            self._asked = self._clock.monotonic() + _ASK_AGAIN  # not again at once
        return None
