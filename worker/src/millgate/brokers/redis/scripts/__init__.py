"""The verbs as Lua scripts: one file each, composed at load with the parts of the prelude that they use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

#: These run before the queue exists, so they stand alone.
_ALONE: Final = frozenset({"setup", "probe"})
_SELDOM: Final = "--@seldom"
#: The prelude's files, each one noun. What is not seldom used stands behind what it uses.
NOUNS: Final = (
    "frame",
    "topics",
    "gathering",
    "rows",
    "gates",
    "leases",
    "ends",
    "dead",
    "known",
    "publishing",
    "groups",
    "active",
    "bells",
    "finish",
    "upkeep",
    "regating",
    "time",
    "settlements",
)
_FUNCTION: Final = re.compile(r"^local function (\w+)\(", re.MULTILINE)
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\(")
_COMMENT: Final = re.compile(r"^\s*--(?!@).*\n?", re.MULTILINE)


class Script(NamedTuple):
    """The text of a verb and the name under which a server remembers it."""

    verb: str
    text: bytes
    sha: bytes


class _Part(NamedTuple):
    """Some lines of the prelude: one function, or statements that every verb needs (no name)."""

    name: str
    text: str
    seldom: bool


@cache
def script(verb: str) -> Script:
    """The whole script of one verb."""
    folder = files(__name__)
    text = folder.joinpath(f"{verb}.lua").read_text(encoding="utf-8")
    if verb not in _ALONE:
        text = compose(prelude(), text)
    data = text.encode()
    return Script(verb, data, hashlib.sha1(data, usedforsecurity=False).hexdigest().encode())


@cache
def prelude() -> str:
    """What verbs share, whole."""
    folder = files(__name__).joinpath("prelude")
    return "".join(folder.joinpath(f"{noun}.lua").read_text(encoding="utf-8") for noun in NOUNS)


def compose(shared: str, verb: str) -> str:
    """A verb's text behind the parts of the prelude that it uses.

    Functions marked as seldom used are nested in one function, which makes them when the first of them is called.
    """
    parts = list(_parts(_COMMENT.sub("", shared)))
    needed = _reached(parts, verb)
    seldom = [part for part in parts if part.seldom and part.name in needed]
    often = [part for part in parts if not part.seldom and (not part.name or part.name in needed)]
    words = set(_CALL.findall("".join(part.text for part in often) + verb))
    entries = [part.name for part in seldom if part.name in words]
    lines = [part.text for part in often if not part.name]
    # one function around the rest: what it captures once costs those inside nothing to capture
    lines.append("return (function()\n")
    if seldom:
        lines += ["local rare, rarely\n", *map(_stub, entries)]
    lines += [part.text for part in often if part.name]
    if seldom:
        lines.append(_nested(seldom, entries))
    return "".join([*lines, verb, "end)()\n"])


def _parts(text: str) -> Iterator[_Part]:
    """The prelude's parts: a part begins at a line that is not indented and does not close something."""
    seldom = False
    lines: list[str] = []
    for line in [*text.splitlines(keepends=True), "local"]:
        begins = bool(line.strip()) and not line.startswith((" ", "end", "}"))
        if begins and lines:
            whole = "".join(lines)
            name = _FUNCTION.match(whole)
            yield _Part(name[1] if name else "", whole, seldom)
            seldom, lines = False, []
        if line.startswith(_SELDOM):
            seldom = True
        elif line.strip():
            lines.append(line)


def _reached(parts: list[_Part], verb: str) -> set[str]:
    """The names of all functions that a verb uses, or that those use."""
    texts = {part.name: part.text for part in parts if part.name}
    reached: set[str] = set()
    todo = [verb, *(part.text for part in parts if not part.name)]
    while todo:
        found = set(_CALL.findall(todo.pop())) & texts.keys() - reached
        reached |= found
        todo += [texts[name] for name in found]
    return reached


def _stub(name: str) -> str:
    return (
        f"local function {name}(...)\n  if not rare then rarely() end\n"
        f"  return rare.{name}(...)\nend\n"
    )


def _nested(parts: list[_Part], entries: list[str]) -> str:
    names = ", ".join(part.name for part in parts)
    bodies = "".join(_FUNCTION.sub(r"\1 = function(", part.text, count=1) for part in parts)
    table = ", ".join(f"{name} = {name}" for name in entries)
    return f"rarely = function()\nlocal {names}\n{bodies}rare = {{ {table} }}\nend\n"
