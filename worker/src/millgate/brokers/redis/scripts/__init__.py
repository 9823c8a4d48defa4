"""The verbs as Lua scripts: one file each, composed with what they share when they are loaded."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

#: These run before the queue exists, so they stand alone.
_ALONE: Final = frozenset({"setup", "probe"})


class Script(NamedTuple):
    """The text of a verb and the name under which a server remembers it."""

    verb: str
    text: bytes
    sha: bytes


@cache
def script(verb: str) -> Script:
    """The whole script of one verb."""
    folder = files(__name__)
    parts = [] if verb in _ALONE else [folder.joinpath("prelude.lua").read_bytes()]
    text = b"\n".join([*parts, folder.joinpath(f"{verb}.lua").read_bytes()])
    return Script(verb, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())
