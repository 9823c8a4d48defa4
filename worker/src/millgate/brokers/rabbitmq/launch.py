"""Starting a brokerd for a queue that nobody serves, by whoever needs it first."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import IO, Final

from millgate.brokers.rabbitmq.url import Target
from millgate.brokers.served.detached import Detached
from millgate.brokers.served.folders import private_folder, runtime_folder
from millgate.clock import Clock
from millgate.errors import BrokerRefused
from millgate.settings import environment

#: Environment variable that hands the URL on: a command line would show its password to every user of the machine.
URL: Final = "MILLGATE_BROKER"
#: Seconds without a call after which a brokerd that was started this way ends.
IDLE: Final = 30.0
_LOG_BOUND: Final = 2**20  # bytes of the log after which a new start begins it anew

log = logging.getLogger("millgate.brokers.rabbitmq")


def start(target: Target, queue: str, clock: Clock, end: float) -> None:
    """Have a brokerd serve the queue, this machine's or another's; it lives on while anybody calls it.

    Raises BrokerTimeout, and what keeps it from coming up.
    """
    log.info("nobody serves queue %s at %s: starting a brokerd", queue, target.endpoint)
    with _log_file(queue) as output:
        program = Detached(
            "millgate.brokers.rabbitmq", ["--queue", queue, "--idle", str(IDLE)], output
        )
        program.start(clock, end, {**environment(), URL: target.url})


def _log_file(queue: str) -> IO[bytes]:
    folder = runtime_folder(environment())
    private_folder(folder)
    path = Path(folder) / f"rabbitmq-{queue}.log"
    try:
        long = path.exists() and path.stat().st_size > _LOG_BOUND
        return path.open("wb" if long else "ab")
    except OSError as error:
        raise BrokerRefused(f"cannot write the log {path}: {error.strerror}") from error
