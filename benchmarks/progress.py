"""What a measurement says while it runs: on standard error, for its last line of output is for programs."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """For people, who may not see the last line only."""
    print(text, file=sys.stderr, flush=True)
