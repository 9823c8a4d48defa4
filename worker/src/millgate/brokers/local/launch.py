"""Starting brokerd, or joining the one that is there: how a set-up broker comes about on a machine without services.

Of many processes that begin at once one starts it, behind a lock, and the others join. Whoever listens is asked who
it is within a bounded time, and what is not a broker with this key is told apart, each with an error of its own.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from millgate.brokers.local.address import Address
from millgate.brokers.local.link import Absent, connect
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.detached import Detached, log_file
from millgate.brokers.served.folders import private_folder
from millgate.brokers.served.link import Hangup
from millgate.brokers.served.lockfile import lock
from millgate.clock import Clock
from millgate.errors import BrokerRefused, BrokerTimeout, BrokerUnavailable, ForeignPeer
from millgate.shortage import of_files

_HANGUPS: Final = 3  # a broker that stops hangs up too, but not again and again
_PAUSE: Final = 0.02

log = logging.getLogger("millgate.brokers.local")
_reported: set[tuple[int, str, int, str]] = set()
_reporting = threading.Lock()


def ensure(address: Address, clock: Clock, deadline: float) -> None:
    """Have a broker listen at `address`: join it, or start it where only this machine can be meant.

    Raises BrokerUnavailable, BrokerTimeout, ForeignPeer, AuthFailed, SchemaTooNew and the like.
    """
    end = clock.monotonic() + deadline
    try:
        _report(address, _joined(address, clock, end))
    except (BrokerTimeout, BrokerRefused) as error:
        _once(address, 0, error.reason, logging.WARNING, str(error))
        raise


def _joined(address: Address, clock: Clock, end: float) -> Mapping[str, Any]:
    try:
        return probe(address, clock, end)
    except Absent:
        if not address.starts:
            raise
    with _alone(address, clock, end):
        with suppress(Absent):
            return probe(address, clock, end)  # somebody was quicker
        _start(address, clock, end)
        return probe(address, clock, end)


def probe(address: Address, clock: Clock, end: float = math.inf) -> Mapping[str, Any]:
    """What the broker at `address` says of itself, before `end` (monotonic seconds) and within the probe's timeout.

    Raises Absent when nobody listens, BrokerTimeout when who listens does not answer in time, ForeignPeer when it is
    no broker, AuthFailed when it has another key.
    """
    begun = clock.monotonic()
    end = min(end, begun + address.probe_timeout)
    caller = Caller("probe", "probe")
    hangups = 0
    while True:
        try:
            link = connect(address, caller, clock, end)
        except BrokerTimeout as error:
            raise BrokerTimeout(
                f"something listens at {address.place} but did not say within {end - begun:.3g} s"
                " that it is a broker; wait if it is one that reads a long backlog, else stop it or use another address"
            ) from error
        except ForeignPeer as error:
            raise ForeignPeer(
                f"what listens at {address.place} is not a Millgate broker; use another address"
            ) from error
        except Hangup as error:
            hangups += 1
            if hangups == _HANGUPS:
                raise ForeignPeer(
                    f"what listens at {address.place} hangs up without a word: it is not a Millgate broker"
                    " that this client can use; use another address"
                ) from error
            clock.sleep(_PAUSE)
        else:
            link.close()
            return link.info


@contextmanager
def _alone(address: Address, clock: Clock, end: float) -> Iterator[None]:
    """Only one process at a time starts a broker at an address."""
    path = _folder(address) / f"{_name(address)}.start"
    slow = f"another process takes too long to start the broker at {address.place}"
    try:
        handle = lock(path, clock, end - clock.monotonic(), slow)
    except BrokerRefused as error:
        raise BrokerTimeout(slow) from error
    except OSError as error:
        kind = BrokerUnavailable if of_files(error) else BrokerRefused
        why = of_files(error) or error.strerror
        raise kind(f"cannot start a broker at {address.place}: {path}: {why}") from error
    try:
        yield
    finally:
        os.close(handle)


def _start(address: Address, clock: Clock, end: float) -> None:
    with log_file(_log_path(address)) as output:
        Detached("millgate.brokers.local", _arguments(address), output).start(clock, end)


def _arguments(address: Address) -> list[str]:
    arguments = [
        "--starter", str(os.getpid()),
        "--listen", str(address.place),
        "--journal", "on" if address.journal else "off",
        "--data", str(address.data.absolute()),
    ]  # fmt: skip
    if not address.private_key:
        arguments += ["--key-file", str(address.key_file.absolute())]
    if address.die_with_parent:
        arguments.append("--die-with-parent")
    return arguments


def _report(address: Address, info: Mapping[str, Any]) -> None:
    """Say once in each process whose broker this is."""
    pid, starter = info.get("pid"), info.get("starter")
    if starter is None:
        state, text = "standing", "joined the broker at %s (pid %s), which was started by a command"
    elif starter == os.getpid():
        state, text = "own", "started the broker at %s (pid %s)"
    elif info.get("orphan"):
        state, text = "orphan", "took over the broker at %s (pid %s): who started it has ended"
    else:
        state, text = "sibling", "joined the broker at %s (pid %s) of a living process"
    _once(address, int(pid or 0), state, logging.INFO, text % (address.place, pid))


def _once(address: Address, pid: int, state: str, level: int, text: str) -> None:
    entry = (os.getpid(), str(address.place), pid, state)
    with _reporting:
        if entry in _reported:
            return
        _reported.add(entry)
    log.log(level, "%s", text, extra={"state": state})


def _folder(address: Address) -> Path:
    """Where the lock and the log of a start are."""
    if address.place.path is None or address.private_key:
        private_folder(address.runtime)
    return address.runtime if address.place.path is None else address.place.path.parent


def _name(address: Address) -> str:
    path = address.place.path
    return path.name if path is not None else f"port-{address.place.port}"


def _log_path(address: Address) -> Path:
    return _folder(address) / f"{_name(address)}.log"
