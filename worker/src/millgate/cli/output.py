"""Prints values as a table, JSON or YAML: one shape of data, three renderings.

Unknown is `?` in a table and null elsewhere, never 0.
"""

from __future__ import annotations

import argparse
import base64
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.util import find_spec
from typing import Any, Final

from millgate.cli.console import Console
from millgate.cli.harmless import harmless
from millgate.frozen import dataclass

FORMATS: Final = ("table", "json", "yaml")
#: What a payload may be nested to be shown as JSON: `send` takes a hundred levels, and printing needs a stack.
_DEEPEST: Final = 120
_BOLD, _DIM, _RED, _GREEN, _YELLOW, _PLAIN = (
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[0m",
)
#: Words that deserve a colour wherever they stand alone in a cell.
_COLOURS: Final = {
    "failed": _RED,
    "unknown": _RED,
    "Unknown": _RED,
    "Fenced": _YELLOW,
    "paused": _YELLOW,
    "running": _YELLOW,
    "succeeded": _GREEN,
    "Active": _GREEN,
    "-": _DIM,
    "?": _DIM,
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under titles. Columns whose every cell is a number are set to the right.

    A cell is one line, whatever a task put into it.
    """

    titles: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def render(self, colours: bool = False) -> str:
        """Lines without trailing blanks; the titles alone when there are no rows."""
        rows = [[harmless(cell) for cell in row] for row in self.rows]
        widths = [
            max(_width(row[at]) for row in (self.titles, *rows)) for at in range(len(self.titles))
        ]
        right = [bool(rows) and all(_numeric(row[at]) for row in rows) for at in range(len(widths))]
        head = _line(self.titles, widths, right, {})
        lines = [_BOLD + head + _PLAIN if colours else head]
        palette = _COLOURS if colours else {}
        lines += [_line(row, widths, right, palette) for row in rows]
        return "\n".join(lines)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Give a command its `-o`."""
    parser.add_argument(
        "-o",
        "--output",
        type=_known,
        choices=FORMATS,
        default="table",
        help="how to print (default: table)",
    )


def _known(how: str) -> str:
    """An argparse type: what cannot be printed is refused before the command does anything."""
    if how == "yaml" and find_spec("yaml") is None:
        raise argparse.ArgumentTypeError("yaml needs PyYAML: pip install pyyaml, or use json")
    return how


def emit(console: Console, how: str, value: Any, *tables: Table) -> None:
    """Print `value` as JSON or YAML, or the tables that show it."""
    if how == "table":
        text = "\n\n".join(table.render(console.colours) for table in tables)
    elif how == "json":
        text = _json(plain(value), _unicode(console))
    else:
        text = _yaml(plain(value), _unicode(console))
    console.print(text)


def plain(value: Any) -> Any:
    """The value in JSON types: dataclasses become objects, bytes what they say, or base64."""
    if is_dataclass(value) and not isinstance(value, type):
        return {_camel(field.name): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return payload(value)
    if isinstance(value, Enum):
        return value.value
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def payload(data: bytes | None) -> Any:
    """An encoded call or result as people read it: JSON, else text, else {"base64": …}.

    What another program wrote may be no JSON that can be printed again: then it is text.
    """
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    try:
        value = json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return text
    return text if _deeper(value, _DEEPEST) else value


def _no_json(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, list | dict):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inner)


def brief(data: bytes | None, width: int = 40) -> str:
    """A payload on one line, cut at `width`."""
    if data is None:
        return "-"
    return cut(json.dumps(payload(data), ensure_ascii=False), width)


def cut(text: str, width: int) -> str:
    """A text of at most `width` characters, with a mark where the rest is missing."""
    return text if len(text) <= width else text[: width - 1] + "…"


def count(value: int | None) -> str:
    """A number that may be unknown."""
    return "?" if value is None else str(value)


def age(seconds: float | None, nothing: str = "-") -> str:
    """Seconds as people say them, two units at most: 4.2s, 3m10s, 2h05m, 3d4h."""
    if seconds is None:
        return nothing
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def _line(
    cells: Sequence[str], widths: list[int], right: list[bool], palette: Mapping[str, str]
) -> str:
    parts = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        blank = " " * (width - _width(cell))
        colour = palette.get(cell, "")
        shown = f"{colour}{cell}{_PLAIN}" if colour else cell
        parts.append(blank + shown if to_right else shown + blank)
    return "  ".join(parts).rstrip()


def _numeric(cell: str) -> bool:
    return cell in ("?", "-") or cell.replace(".", "", 1).isdigit()


def _width(cell: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in cell)


def _unicode(console: Console) -> bool:
    """Whether the output can say everything; what it cannot must be an escape of the format that is printed."""
    return (getattr(console.out, "encoding", None) or "utf-8").lower() in ("utf-8", "utf8")


def _json(value: Any, unicode: bool) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False)
    if text.replace("\n", "").isprintable():
        return text
    # what moves a terminal's cursor or turns its writing round is only ever within strings
    return "".join(
        letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1]
        for letter in text
    )


def _yaml(value: Any, unicode: bool) -> str:
    import yaml  # large, and seldom wanted

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=unicode)
    return text.rstrip("\n")
