"""Folders that are to go: out of sight at once, then deleted by a process of their own, for disks can be slow at it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from node import cache, settings


def throw_away(folder: Path) -> int | None:
    """Move a folder to the trash and begin to delete it; the process that does, or None when there is no folder."""
    there = cache.folder("trash") / secrets.token_hex(8)
    try:
        folder.rename(there)
    except FileNotFoundError:
        return None
    return _delete(there)


def empty() -> None:
    """Begin again what a run that ended did not see through."""
    for left in cache.folder("trash").iterdir():
        _delete(left)


def wait(process: int | None) -> None:
    """Wait until a deletion that this process began is done."""
    if process is not None:
        with suppress(ChildProcessError):
            os.waitpid(process, 0)


def _delete(folder: Path) -> int:
    argv = ["nice", "-n", "10", "rm", "-rf", str(folder)]
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    env = {"PATH": settings.search_path()}
    return os.posix_spawnp("nice", argv, env, file_actions=null, setsid=True)
