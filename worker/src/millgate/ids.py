"""Identifiers: time-ordered, unique without asking anybody."""

from __future__ import annotations

import mmap
import os
import re

#: What a caller may give as an id of its own.
TASK_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")
#: Random ends of ids that nobody has had yet: to ask the system for each would cost more than all else.
_ends: list[str] = []
_AHEAD = 64
#: Begins with 0 in a process that has not drawn any, so in a forked one, which draws its own. The kernel sees to that
#: where it can: some servers fork without telling Python.
_drawn = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
_WIPE_ON_FORK = 18  # MADV_WIPEONFORK of Linux 4.14
try:  # noqa: SIM105 -- contextlib is memory of every child
    _drawn.madvise(_WIPE_ON_FORK)
except (OSError, AttributeError):
    pass
os.register_at_fork(after_in_child=lambda: _drawn.__setitem__(0, 0))


def new_id(now: float) -> str:
    """A UUID of version 7 (RFC 9562, section 5.7) as 32 hex digits: ids sort by creation time.

    `now` is seconds since 1970; the rest is random.
    """
    if not _drawn[0]:
        _ends.clear()
        _drawn[0] = 1
    while True:
        try:
            end = _ends.pop()  # one step, whichever thread
        except IndexError:
            _draw()
        else:
            return f"{int(now * 1000) & 0xFFFF_FFFF_FFFF:012x}{end}"


def _draw() -> None:
    """The last 20 digits of ids: a 7 for the version, 3 random ones, one of 8 to b for the variant, 15 random ones."""
    digits = os.urandom(10 * _AHEAD).hex()
    for at in range(0, len(digits), 20):
        variant = "89ab"[int(digits[at], 16) & 3]
        _ends.append(f"7{digits[at + 1 : at + 4]}{variant}{digits[at + 5 : at + 20]}")


def new_incarnation() -> str:
    """One start of one worker: 16 random hex digits."""
    return os.urandom(8).hex()
