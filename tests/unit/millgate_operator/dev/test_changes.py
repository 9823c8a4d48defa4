"""Noticing edits: manifests always, code when asked, and nothing that is not the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millgate_operator.dev.changes import Changed, Changes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queue.yaml").write_text("a")
    (tmp_path / "tasks.py").write_text("a")
    (tmp_path / "nested").mkdir()
    return tmp_path


def touch(path: Path, text: str = "b") -> None:
    """Write, with a time that surely differs."""
    path.write_text(text)
    later = path.stat().st_mtime_ns + 10_000_000
    os.utime(path, ns=(later, later))


def test_nothing_edited_is_nothing_changed(folder: Path) -> None:
    assert Changes(folder, code=True).since() == Changed(manifests=False, code=False)


def test_an_edited_new_or_removed_manifest_is_noticed_once(folder: Path) -> None:
    changes = Changes(folder, code=False)
    touch(folder / "queue.yaml")
    assert changes.since().manifests
    assert not changes.since().manifests
    touch(folder / "topic.yml")
    assert changes.since().manifests
    (folder / "topic.yml").unlink()
    assert changes.since().manifests


def test_code_counts_when_asked_for_at_any_depth(folder: Path) -> None:
    asked, not_asked = Changes(folder, code=True), Changes(folder, code=False)
    touch(folder / "nested" / "more.py")
    assert asked.since() == Changed(manifests=False, code=True)
    assert not_asked.since() == Changed(manifests=False, code=False)


@pytest.mark.parametrize("name", ["__pycache__", ".venv", "node_modules"])
def test_what_tools_write_does_not_count(folder: Path, name: str) -> None:
    changes = Changes(folder, code=True)
    (folder / name).mkdir()
    touch(folder / name / "x.py")
    assert changes.since() == Changed(manifests=False, code=False)


def test_beside_a_single_file_other_manifests_do_not_count(folder: Path) -> None:
    changes = Changes(folder / "queue.yaml", code=False)
    touch(folder / "other.yaml")
    assert not changes.since().manifests
