"""Resident memory of a process with all its descendants, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")


def tree_rss(root: int) -> int | None:
    """Bytes of the whole tree, shared pages counted for each; None: it is gone, or this system has no /proc."""
    total, todo = None, [root]
    while todo:
        pid = todo.pop()
        try:
            pages = int((_PROC / f"{pid}/statm").read_text(encoding="ascii").split()[1])
            threads = list((_PROC / f"{pid}/task").iterdir())
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
        total = (total or 0) + pages * _PAGE
        for thread in threads:
            todo += _children(thread)
    return total


def _children(thread: Path) -> list[int]:
    try:
        return [int(word) for word in (thread / "children").read_text(encoding="ascii").split()]
    except OSError:
        return []
