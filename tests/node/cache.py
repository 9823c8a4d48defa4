"""Where the harness keeps what outlives a run, and the lock that lets several runs share it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from node import settings

Say = Callable[[str], None]


def folder(*parts: str) -> Path:
    """A folder of the cache, made if it is not there."""
    path = settings.cache_home().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(name: str, say: Say) -> Iterator[None]:
    """Hold the lock of that name; the kernel gives it back when this process ends, however it ends."""
    with (folder() / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that works on the same {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def keep_newest(where: Path, pattern: str, count: int) -> None:
    """Remove all but the newest files of a pattern: another run may still read one that is not the newest."""
    found = sorted(where.glob(pattern), key=lambda path: path.stat().st_mtime)
    for old in found[:-count]:
        old.unlink(missing_ok=True)
