"""The address that a broker listens on: taken from nobody who is alive, and given back at the end."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import Final

from millgate.brokers.local.address import Place
from millgate.brokers.served.lockfile import lock
from millgate.clock import Clock
from millgate.errors import BrokerRefused, BrokerUnavailable

_BACKLOG: Final = 1024


class Listener:
    """A listening socket; for a path also the lock that tells a killed broker's socket from a living one's."""

    def __init__(self, place: Place, clock: Clock, patience: float) -> None:
        """Take the address. Raises BrokerRefused when somebody has it for longer than `patience` seconds, and
        BrokerUnavailable when who has it takes no connections any more."""
        self.place = place
        self._lock = -1
        if place.path is None:
            self.socket = _listen_tcp(place)
        else:
            self._lock = _locked(place.path, clock, patience)
            try:
                self.socket = _listen_unix(place.path)
            except BaseException:
                os.close(self._lock)
                raise
        self.socket.setblocking(False)

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
        if self.place.path is not None:
            self.place.path.unlink(missing_ok=True)
            os.close(self._lock)


def _locked(path: Path, clock: Clock, patience: float) -> int:
    name = path.with_name(path.name + ".lock")
    try:
        return lock(name, clock, patience, f"a broker listens at {path} already")
    except BrokerRefused as refused:
        if not path.exists():
            raise BrokerRefused(
                f"a broker has {name}, but somebody removed its socket {path}; end that broker"
            ) from refused
        if not _deserted(path):
            raise
        raise BrokerUnavailable(
            f"the broker at {path} has yet to end: it writes down what is in its memory; try again"
        ) from refused
    except OSError as error:
        raise BrokerRefused(f"cannot listen at {path}: {name}: {error.strerror}") from error


def _listen_unix(path: Path) -> socket.socket:
    """With the lock in hand, a socket that refuses belongs to a broker that was killed."""
    _clear(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # from its first moment on, nobody else may open it
    try:
        sock.bind(str(path))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise BrokerRefused(f"cannot listen at {path}: {error.strerror}") from error
    finally:
        os.umask(before)
    return sock


def _clear(path: Path) -> None:
    try:
        status = path.lstat()
    except OSError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise BrokerRefused(f"{path} is there and is not a socket; remove it, or listen elsewhere")
    if not _deserted(path):
        raise BrokerRefused(f"something else listens at {path}; stop it, or listen elsewhere")
    path.unlink(missing_ok=True)


def _deserted(path: Path) -> bool:
    """Whether nobody takes connections at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False


def _listen_tcp(place: Place) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise BrokerRefused(f"cannot listen at {place}: {error.strerror}") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise BrokerRefused(f"cannot listen at {place}: {error.strerror}") from error
    return sock
