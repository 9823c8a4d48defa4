"""The resource definitions as files: fresh, small, complete, and of the one group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from millgate_operator import generate, names
from millgate_operator.schema import KINDS, definition

ROOT = Path(__file__).parents[2]
#: Client-side apply stores the whole object in an annotation of at most 262,144 bytes; we stay far below.
LARGEST = 60_000


@pytest.mark.parametrize("name", sorted(generate.files()))
def test_generated_files_are_fresh(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == generate.files()[name], f"{name} is stale: run `make generate`"


def test_nothing_else_lies_among_the_generated_files() -> None:
    there = {path.name for path in (ROOT / "crds").iterdir()}
    assert there == {f"{kind.plural}.yaml" for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_definition_is_small_enough_for_any_way_of_applying_it(kind: Any) -> None:
    assert len((ROOT / "crds" / f"{kind.plural}.yaml").read_bytes()) < LARGEST


def fields(path: str, node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(f"{path}.{name}", child)
    if "items" in node:
        yield from fields(f"{path}[]", node["items"])


def schema(kind: Any) -> dict[str, Any]:
    [version] = definition(kind)["spec"]["versions"]
    root: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return root


EVERY_FIELD = [
    pytest.param(node, id=f"{kind.kind}{path}")
    for kind in KINDS
    for path, node in fields("", schema(kind))
    if path not in (".metadata", ".apiVersion", ".kind")
]


@pytest.mark.parametrize("node", EVERY_FIELD)
def test_every_field_is_described_and_bounded(node: dict[str, Any]) -> None:
    words = node["description"]
    assert re.match(r"[A-Z].*[.)]$", words, re.DOTALL), words
    if node.get("type") == "array":
        assert "maxItems" in node
        assert "x-kubernetes-list-type" in node
    if node.get("type") == "string" and "enum" not in node and node.get("format") != "date-time":
        assert "maxLength" in node or "pattern" in node
    if "anyOf" in node:
        assert node["x-kubernetes-int-or-string"] is True


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_definition_says_what_it_is_called(kind: Any) -> None:
    made = definition(kind)
    spec = made["spec"]
    assert spec["group"] == names.GROUP
    assert made["metadata"]["name"] == f"{spec['names']['plural']}.{names.GROUP}"
    assert spec["names"]["categories"] == ["millgate"]
    assert made["metadata"]["annotations"][names.ANNOTATION_SCHEMA] == str(names.SCHEMA_VERSION)


def test_short_names_are_those_of_the_documentation() -> None:
    assert [kind.short for kind in KINDS] == ["tq", "tqt"]


def test_no_policy_of_a_topic_has_a_default_in_the_schema() -> None:
    """One would fill in every Topic before the queue's own defaults could apply."""
    queue, topic = (schema(kind)["properties"]["spec"] for kind in KINDS)
    filled = [path for path, node in fields("", topic) if "default" in node]
    filled += [
        path for path, node in fields("", queue["properties"]["defaults"]) if "default" in node
    ]
    assert filled == [".rate.per", ".rate.per"], "only inside a rate, which is given whole"


def test_every_rule_has_words_that_say_what_to_write() -> None:
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
        rules = list(rules_of(text["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
        assert len(rules) >= 8
        assert all(len(rule["message"]) > 15 for rule in rules)


def rules_of(node: Any) -> Iterator[dict[str, str]]:
    if isinstance(node, dict):
        yield from node.get("x-kubernetes-validations", ())
        for child in node.values():
            yield from rules_of(child)
    elif isinstance(node, list):
        for child in node:
            yield from rules_of(child)


def test_the_group_is_spelt_in_one_place_of_the_sources() -> None:
    spelt = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "operator" / "src").rglob("*.py"))
        if re.search(r"[\"']millgate\.dev", path.read_text(encoding="utf-8"))
    ]
    assert spelt == ["operator/src/millgate_operator/names.py"]
