"""What every process that serves queues from its memory does alike."""

from __future__ import annotations

import gc
from importlib import metadata


def spare_collector() -> None:
    """Let the garbage collector look through old objects rarely.

    A long backlog is a heap of small objects without cycles: looking through all of it would stop every caller.
    """
    gc.set_threshold(20_000, 50, 1000)


def version() -> str:
    """Millgate's version; empty when it is run from a source tree."""
    try:
        return metadata.version("millgate")
    except metadata.PackageNotFoundError:
        return ""
