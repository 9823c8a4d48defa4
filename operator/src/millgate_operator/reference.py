"""The reference page of a kind, for people: every field with its type, default and bounds, and every rule. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from millgate_operator import names
from millgate_operator.schema import Kind, structural

_PATTERNS: Final = {
    r"^([0-9]+(ms|s|m|h))+$": "duration",
    r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$": "quantity",
    r"^([0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?|[1-9][0-9]?%|100%)$": "quantity or percent",
    r"^([1-9][0-9]?%|100%)$": "number or percent",
}


def page(kind: Kind) -> str:
    """Markdown for docs/reference/."""
    lines = [
        f"# {kind.kind}",
        "",
        f"{kind.description} `{names.API_VERSION}`, short name `{kind.short}`, namespaced.",
        "",
        "<!-- Written by `make generate` from operator/src/millgate_operator/spec/; edit that. -->",
        "",
        "## spec",
        "",
        *_table(structural(kind.spec)),
        "",
        "### Rules",
        "",
        "Refused by the API server when they do not hold:",
        "",
        *[f"- {rule['message']}." for rule in kind.rules],
        *[f"- `{path}`: {message}." for path, message in _rules("spec", structural(kind.spec))],
        "",
        "## status",
        "",
        *_table(structural(kind.status)),
        "",
    ]
    return "\n".join(lines)


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    for path, node, needed in _fields("", schema):
        default = f"`{node['default']}`" if "default" in node else ("needed" if needed else "")
        words = str(node.get("description", "")).replace("|", "\\|")
        yield f"| `{path}` | {_type(node)} | {default} | {words} |"


def _fields(
    prefix: str, schema: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    required = schema.get("required", ())
    for name, node in schema.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, node, name in required
        if node.get("type") == "array":
            yield from _fields(path + "[]", node["items"])
        else:
            yield from _fields(path, node)


def _type(node: Mapping[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    named = _PATTERNS.get(node.get("pattern", ""))
    if named is not None:
        return named
    kind = str(node.get("type", "any"))
    if kind == "array":
        return f"list of {_type(node['items'])}"
    return kind + _bounds(node)


def _bounds(node: Mapping[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is None and high is None:
        return ""
    return f", {low} to {high}" if high is not None else f", at least {low}"


def _rules(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, node in schema.get("properties", {}).items():
        if node.get("type") == "array":
            yield from _rules(f"{path}.{name}[]", node["items"])
        else:
            yield from _rules(f"{path}.{name}", node)
