"""Bytes cut to a size that every server takes in one message. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: Bytes of a piece; servers take messages of 16 MiB at least.
LARGEST: Final = 4 * 2**20


def cut(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """The pieces in order, and whether another one follows; of nothing, one that is empty."""
    last = max(0, (len(data) - 1) // LARGEST)
    for number in range(last + 1):
        yield data[number * LARGEST : (number + 1) * LARGEST], number < last
