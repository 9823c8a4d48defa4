"""The pages for operators of a cluster name every metric, condition, reason and decision that there is."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

from millgate_operator import metrics
from millgate_operator.gauges import MOST_TOPICS
from millgate_operator.scaling import Reason, Terms

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "operator/src/millgate_operator").rglob("*.py"))
GUIDE = (ROOT / "docs/guides/operator.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/reference/operator-metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(millgate_\w+)` \| *(.*?) *\| (.*) \|$", re.MULTILINE)
#: Where in a call the reason stands.
PLACES = {"Condition": 2, "yes": 1, "no": 1, "Blocked": 0, "Trouble": 0}
#: Of the program that helm test runs: it prints it, no status has it.
PRINTED = {"Unseen"}


def _text(node: ast.Call, place: int) -> str | None:
    found = node.args[place] if len(node.args) > place else None
    return str(found.value) if isinstance(found, ast.Constant) and found.value else None


def conditions() -> tuple[set[str], set[str]]:
    """The types and the reasons that are written in the sources."""
    types, reasons = set[str | None](), set[str | None]()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in PLACES:
                reasons.add(_text(node, PLACES[name]))
                if PLACES[name]:
                    types.add(_text(node, 0))
    return {one for one in types if one}, {one for one in reasons if one}


def test_the_guide_names_every_condition_and_reason() -> None:
    types, reasons = conditions()
    assert {"BrokerConnected", "DevelopmentBroker"} <= types
    assert {"RollingOut", "SecretMissing", "InvalidTemplate"} <= reasons
    words = set(re.findall(r"\w+", GUIDE))
    assert types - words == set()
    assert reasons - words - PRINTED == set()


def test_the_guide_names_every_word_of_a_decision() -> None:
    about = GUIDE[GUIDE.index("`status.workers.decision`") :]
    assert {reason.value for reason in Reason} - set(re.findall(r"\w+", about)) == set()


def test_every_metric_of_the_operator_is_explained() -> None:
    rows = {name: (labels, text) for name, labels, text in ROW.findall(PAGE)}
    assert rows.keys() == metrics._HELP.keys()
    terms = set(re.findall(r"`(\w+)`", rows["millgate_autoscaler_term"][1]))
    assert terms == {field.name for field in fields(Terms)}
    assert MOST_TOPICS == 50  # "up to fifty"
