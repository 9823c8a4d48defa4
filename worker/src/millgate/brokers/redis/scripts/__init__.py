"""The verbs as Lua scripts: one file each, composed at load with the parts of the prelude that they use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

#: These run before the queue exists, so they stand alone.
_ALONE: Final = frozenset({"setup", "probe"})
#: These do not wait for a batch that is being carried out in several calls: they prepare one, carry it on, or have
#: nothing to do with messages that wait.
_MEANWHILE: Final = frozenset({"stage", "step", "extend"})
_SELDOM: Final = "--@seldom"
#: A verb's own word on functions of the prelude.
_OWN: Final = re.compile(r"^--@(often|seldom) (.+)\n", re.MULTILINE)
#: The prelude's files, each one noun. What is not seldom used stands behind what it uses.
NOUNS: Final = (
    "frame",
    "turn",
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
    "offering",
    "batches",
    "active",
    "bells",
    "finish",
    "upkeep",
    "regating",
    "policies",
    "time",
    "settlements",
)
_FUNCTION: Final = re.compile(r"^local function (\w+)\(", re.MULTILINE)
_VALUES: Final = re.compile(r"^local (\w+(?:, \w+)*)")
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\(")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_COMMENT: Final = re.compile(r"^\s*--(?!@).*\n?| -- .*$", re.MULTILINE)


class Script(NamedTuple):
    """The text of a verb and the name under which a server remembers it."""

    verb: str
    text: bytes
    sha: bytes


class _Part(NamedTuple):
    """Some lines of the prelude: one function, values under their names, or a statement that every verb needs."""

    names: tuple[str, ...]
    text: str
    function: bool
    seldom: bool


class _Chosen(NamedTuple):
    """The parts that a verb needs: first those outside, in order, then those that are made when one is called."""

    values: list[_Part]
    often: list[_Part]
    inner: list[_Part]
    seldom: list[_Part]


@cache
def script(verb: str) -> Script:
    """The whole script of one verb."""
    folder = files(__name__)
    text = folder.joinpath(f"{verb}.lua").read_text(encoding="utf-8")
    if verb not in _ALONE:
        text = compose(prelude(meanwhile=verb in _MEANWHILE), text)
    data = text.encode()
    return Script(verb, data, hashlib.sha1(data, usedforsecurity=False).hexdigest().encode())


@cache
def prelude(*, meanwhile: bool = False) -> str:
    """What verbs share, whole; `meanwhile`: without what makes them wait for their turn."""
    folder = files(__name__).joinpath("prelude")
    return "".join(
        folder.joinpath(f"{noun}.lua").read_text(encoding="utf-8")
        for noun in NOUNS
        if not (meanwhile and noun == "turn")
    )


def compose(shared: str, verb: str) -> str:
    """A verb's text behind the parts of the prelude that it uses.

    Functions marked as seldom used, by the prelude or by the verb, and those that only such ones use, are made, with
    the values that nobody else uses, when the first of them is called: they are fields of a table that is empty until
    then.
    """
    own = {kind: words.split() for kind, words in _OWN.findall(verb)}
    verb = _OWN.sub("", verb)
    parts = [_judged(part, own) for part in _parts(_COMMENT.sub("", shared))]
    chosen = _choose(parts, verb)
    called = set(_CALL.findall(_text(chosen.often) + verb))
    entries = [part.names[0] for part in chosen.seldom if part.names[0] in called]
    often, verb = (
        _CALL.sub(lambda call: ("rare." if call[1] in entries else "") + call[0], text)
        for text in (_text(chosen.often), verb)
    )
    # one function around the rest: what it captures once costs those inside nothing to capture
    head, foot = _text(chosen.values) + "return (function()\n", verb + "end)()\n"
    if not entries:
        return head + often + foot
    return head + "local rare\n" + often + _nested(chosen, entries) + foot


def _judged(part: _Part, own: Mapping[str, Sequence[str]]) -> _Part:
    """A part, as a verb sees it."""
    for kind, names in own.items():
        if part.function and part.names[0] in names:
            return part._replace(seldom=kind == "seldom")
    return part


def _choose(parts: list[_Part], verb: str) -> _Chosen:
    often = _reached([part for part in parts if not part.seldom], verb)
    outer = [part for part in parts if part.function and part.names[0] in often]
    needed = _reached(parts, verb) - often
    inner = [part for part in parts if part.function and part.names[0] in needed]
    values = [part for part in parts if not part.function]
    first = _used(values, verb + _text(outer) + _text([part for part in values if not part.names]))
    rest = _used([part for part in values if part not in first], _text(inner))
    return _Chosen(first, outer, rest, inner)


def _text(parts: Sequence[_Part]) -> str:
    return "".join(part.text for part in parts)


def _parts(text: str) -> Iterator[_Part]:
    """The prelude's parts: a part begins at a line that is not indented and does not close something."""
    seldom = False
    lines: list[str] = []
    for line in [*text.splitlines(keepends=True), "local"]:
        begins = bool(line.strip()) and not line.startswith((" ", "end", "}"))
        if begins and lines:
            whole = "".join(lines)
            function, values = _FUNCTION.match(whole), _VALUES.match(whole)
            names = (function or values or ("", ""))[1]
            yield _Part(tuple(filter(None, names.split(", "))), whole, bool(function), seldom)
            seldom, lines = False, []
        if line.startswith(_SELDOM):
            seldom = True
        elif line.strip():
            lines.append(line)


def _reached(parts: list[_Part], verb: str) -> set[str]:
    """The names of all functions that a verb uses, or that those use."""
    texts = {part.names[0]: part.text for part in parts if part.function}
    reached: set[str] = set()
    todo = [verb, *(part.text for part in parts if not part.function)]
    while todo:
        found = set(_CALL.findall(todo.pop())) & texts.keys() - reached
        reached |= found
        todo += [texts[name] for name in found]
    return reached


def _used(values: list[_Part], text: str) -> list[_Part]:
    """The statements, and the values that a text uses, or that those use: each stands behind what it uses."""
    used: list[_Part] = []
    words = set(_WORD.findall(text))
    for part in reversed(values):
        if not part.names or words.intersection(part.names):
            used.insert(0, part)
            words.update(_WORD.findall(part.text))
    return used


def _nested(chosen: _Chosen, entries: Iterable[str]) -> str:
    """The table of what is seldom used, which fills itself when it is asked for the first of it."""
    names = ", ".join(part.names[0] for part in chosen.seldom)
    bodies = "".join(_FUNCTION.sub(r"\1 = function(", part.text, count=1) for part in chosen.seldom)
    table = "".join(f"rare.{name} = {name}\n" for name in entries)
    values = _text(chosen.inner)
    return (
        "rare = setmetatable({}, { __index = function(_, wanted)\nsetmetatable(rare, nil)\n"
        f"local {names}\n{values}{bodies}{table}return rare[wanted]\nend }})\n"
    )
