"""A lock on a file that ends with its process, and a little patience for one that is just about to end."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from millgate.clock import Clock
from millgate.errors import BrokerRefused

_PAUSE: Final = 0.02


def lock(path: Path, clock: Clock, patience: float, held: str) -> int:
    """The handle of a locked file, made if needed; closing it lets the lock go.

    Raises BrokerRefused with the text `held` when somebody has it for longer than `patience` seconds: a broker that
    was told to stop writes a snapshot first. Raises OSError when the file cannot be made.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = clock.monotonic() + patience
    while not _taken(handle):
        if clock.monotonic() >= end:
            os.close(handle)
            raise BrokerRefused(held)
        clock.sleep(_PAUSE)
    return handle


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
