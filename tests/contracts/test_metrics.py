"""The page about a worker's metrics names all of them, with the labels and words that they have."""

from __future__ import annotations

import re
from pathlib import Path

from millgate.runtime import metrics
from millgate.runtime.handle import Phase
from millgate.runtime.recycle import Because

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/worker-metrics.md").read_text(encoding="utf-8")
SOURCES = (ROOT / "worker/src/millgate/runtime").glob("*.py")
ROW = re.compile(r"^\| `(millgate_\w+)`( \(histogram\))? \| *(.*?) *\| (.*) \|$", re.MULTILINE)
NAME = re.compile(r'"(millgate_\w+)"')


def test_every_metric_is_explained_on_the_page_and_in_the_output() -> None:
    used = {name for path in SOURCES for name in NAME.findall(path.read_text(encoding="utf-8"))}
    assert {name for name, *_ in ROW.findall(PAGE)} == used == metrics._HELP.keys()


def test_what_the_page_calls_a_histogram_is_one_by_its_name() -> None:
    rows = ROW.findall(PAGE)
    assert {name for name, histogram, *_ in rows if histogram} == {
        name for name, *_ in rows if name.endswith("_seconds")
    }


def test_the_page_has_every_reason_and_every_phase() -> None:
    texts = {name: text for name, _, _, text in ROW.findall(PAGE)}
    words = {name: set(re.findall(r"`(\w+)`", text)) for name, text in texts.items()}
    assert words["millgate_recycles_total"] == {because.value for because in Because}
    assert words["millgate_children"] == {phase.value for phase in Phase}
