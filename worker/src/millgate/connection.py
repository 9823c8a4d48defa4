"""An app's way to its broker: opened when it is first used, in each process anew."""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Mapping

from millgate.errors import InvalidSettings
from millgate.hints import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.brokers.base import Broker


class Connection:
    """The broker of this process; a forked child opens one of its own and leaves the inherited one alone."""

    def __init__(
        self,
        broker: str | Broker | None,
        queue: str | None,
        deadline: float | None,
        *,
        forks: Connection | None = None,
    ) -> None:
        """`forks`: the connection of processes that this one forks, if a broker that is given is not for them."""
        self._given = broker
        self._forks = forks
        self._owner = os.getpid()
        self._queue = queue
        self._deadline = deadline
        self._open: tuple[int, Broker] | None = None

    def broker(self) -> Broker:
        """The broker, opened at the first use. Raises InvalidSettings when none is named."""
        if self._given is not None and not isinstance(self._given, str):
            if self._forks is not None and os.getpid() != self._owner:
                return self._forks.broker()
            return self._given
        with _opening.lock:
            if self._open is None or self._open[0] != os.getpid():
                self._open = os.getpid(), self._connect()
            return self._open[1]

    def close(self) -> None:
        """Close what this process has opened; the next use opens it again."""
        if self._forks is not None:
            self._forks.close()
        opened, self._open = self._open, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    def _connect(self) -> Broker:
        from millgate.brokers import DEFAULT_QUEUE, open_broker
        from millgate.brokers.base import DEADLINE
        from millgate.settings import environment

        env = environment()
        queue = self._queue or env.get("MILLGATE_QUEUE") or DEFAULT_QUEUE
        deadline = DEADLINE if self._deadline is None else self._deadline
        return open_broker(self._url(env), queue=queue, deadline=deadline)

    def _url(self, env: Mapping[str, str]) -> str:
        if isinstance(self._given, str):
            return self._given
        if env.get("MILLGATE_BROKER"):
            return env["MILLGATE_BROKER"]
        if env.get("MILLGATE_BROKER_FILE"):
            return _read(env["MILLGATE_BROKER_FILE"])
        raise InvalidSettings("no broker: give App a URL, or set MILLGATE_BROKER, e.g. local://")


class _Opening:
    """One lock for opening, made anew after a fork: another thread may have held it."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """In a process that was just forked."""
        self.lock = allocate_lock()


_opening = _Opening()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 -- pathlib costs a child memory
            return file.read().strip()
    except OSError as error:
        raise InvalidSettings(
            f"MILLGATE_BROKER_FILE: cannot read {path}: {error.strerror}"
        ) from None
