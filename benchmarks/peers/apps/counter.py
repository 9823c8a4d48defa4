"""What every peer's task does: one byte into $COUNTER."""

from __future__ import annotations

import os
from functools import cache


@cache
def _file() -> int:
    return os.open(os.environ["COUNTER"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)


def bump() -> None:
    os.write(_file(), b".")
