"""Failure ⇄ text as the scripts carry it: JSON with escapes only, so that NUL and lone surrogates can be stored."""

from __future__ import annotations

import json

from millgate.outcome import Failure


def pack(failure: Failure | None) -> str:
    """What is stored; empty: nothing."""
    if failure is None:
        return ""
    return json.dumps([failure.error, failure.message, failure.traceback])


def unpack(data: bytes) -> Failure | None:
    """What `pack` wrote, or a script of ours."""
    return Failure(*json.loads(data)) if data else None
