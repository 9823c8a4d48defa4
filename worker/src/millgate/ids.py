"""Identifiers: time-ordered, unique without asking anybody."""

from __future__ import annotations

import os
import re
import struct

#: What a caller may give as an id of its own.
TASK_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")


def new_id(now: float) -> str:
    """A UUID of version 7 (RFC 9562, section 5.7) as 32 hex digits: ids sort by creation time.

    `now` is seconds since 1970; the rest is random.
    """
    milliseconds = int(now * 1000) & 0xFFFF_FFFF_FFFF
    low, high = struct.unpack(">QH", os.urandom(10))
    value = milliseconds << 80 | 0x7000 << 64 | (high & 0x0FFF) << 64 | 0b10 << 62 | low >> 2
    return f"{value:032x}"


def new_incarnation() -> str:
    """One start of one worker: 16 random hex digits."""
    return os.urandom(8).hex()
