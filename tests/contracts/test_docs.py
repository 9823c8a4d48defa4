"""What the documents say of files is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millgate.brokers.base import Broker

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SOURCES = [*(ROOT / "worker/src").rglob("*"), *(ROOT / "operator/src").rglob("*")]


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    there = {name for name in named for path in SOURCES if str(path).endswith(f"/{name}")}
    assert len(named) > 40
    assert named - there == set()


def test_every_folder_that_the_architecture_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for name in set(re.findall(r"`([\w/]+)/`", text)):
        found = (ROOT / name).is_dir() or any(
            path.is_dir() and str(path).endswith(f"/{name}") for path in SOURCES
        )
        assert found, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_contract_speaks_of_every_verb() -> None:
    text = (ROOT / "docs/contract.md").read_text(encoding="utf-8")
    verbs = {name for name, value in vars(Broker).items() if callable(value) and name[0] != "_"}
    assert verbs - set(re.findall(r"`(\w+)[`(]", text)) == set()
