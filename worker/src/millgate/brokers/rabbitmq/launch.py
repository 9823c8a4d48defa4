"""Starting a brokerd for a queue that nobody serves, by whoever needs it first."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from millgate.brokers.rabbitmq.url import Target
from millgate.brokers.served.detached import Detached, log_file
from millgate.brokers.served.folders import private_folder, runtime_folder
from millgate.brokers.served.lockfile import lock
from millgate.clock import Clock
from millgate.errors import BrokerRefused, BrokerTimeout, BrokerUnavailable
from millgate.settings import environment
from millgate.shortage import of_files

#: Environment variable that hands the URL on: a command line would show its password to every user of the machine.
URL: Final = "MILLGATE_BROKER"
#: Seconds without a call after which a brokerd that was started this way ends.
IDLE: Final = 30.0

log = logging.getLogger("millgate.brokers.rabbitmq")


def start(target: Target, queue: str, clock: Clock, end: float) -> None:
    """Have a brokerd serve the queue, this machine's or another's; it lives on while anybody calls it.

    While another process of this user starts one, that is waited for instead. Raises BrokerTimeout, and what keeps
    it from coming up.
    """
    folder = runtime_folder(environment())
    private_folder(folder)
    handle = _alone(folder / f"rabbitmq-{queue}.start", clock, end)
    if handle is None:
        return
    try:
        log.info("nobody serves queue %s at %s: starting a brokerd", queue, target.endpoint)
        with log_file(folder / f"rabbitmq-{queue}.log") as output:
            program = Detached(
                "millgate.brokers.rabbitmq", ["--queue", queue, "--idle", str(IDLE)], output
            )
            program.start(clock, end, {**environment(), URL: target.url})
    finally:
        os.close(handle)


def _alone(path: Path, clock: Clock, end: float) -> int | None:
    """The handle of the lock that whoever starts one has; None: another had it, and has come to an end with it."""
    slow = "another process takes too long to start a brokerd"
    try:
        with suppress(BrokerRefused):
            return lock(path, clock, 0.0, slow)
        os.close(lock(path, clock, end - clock.monotonic(), slow))
    except BrokerRefused as error:
        raise BrokerTimeout(f"{slow}: {path}") from error
    except OSError as error:
        kind = BrokerUnavailable if of_files(error) else BrokerRefused
        why = of_files(error) or error.strerror
        raise kind(f"cannot start a brokerd: {path}: {why}") from error
    return None
