"""Failure ⇄ bytes. JSON with escapes only, so that NUL and lone surrogates in an error's text can be stored."""

from __future__ import annotations

import json

from millgate.outcome import Failure


def pack(failure: Failure | None) -> bytes | None:
    """What is stored; None: nothing."""
    if failure is None:
        return None
    return json.dumps([failure.error, failure.message, failure.traceback]).encode("ascii")


def unpack(data: bytes | None) -> Failure | None:
    """What `pack` wrote, or the server's own."""
    if data is None:
        return None
    return Failure(*json.loads(data))
