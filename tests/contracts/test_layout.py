"""The shape of the repository that other things stand on."""

from __future__ import annotations

import operator
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = {"operator", "worker", "charts", "crds", "tests", "Dockerfile"}


def tracked() -> list[str]:
    """Paths of committed files."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_fixed_top_level_is_there() -> None:
    assert {name for name in TOP if not (ROOT / name).exists()} == set()


def test_project_folders_are_never_packages() -> None:
    for folder in ("operator", "worker"):
        assert not list((ROOT / folder).glob("*.py"))
        assert {path.name for path in (ROOT / folder).iterdir() if path.suffix != ".egg-info"} <= {
            "pyproject.toml",
            "README.md",
            "src",
        }


def test_importing_operator_gives_the_standard_library() -> None:
    assert Path(operator.__file__).is_relative_to(Path(sys.base_prefix).resolve())
    from_root = subprocess.run(
        [sys.executable, "-c", "import operator; print(operator.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(ROOT) not in from_root.stdout


def test_no_folder_of_tests_hides_a_module_of_the_standard_library() -> None:
    assert not {path.name for path in (ROOT / "tests").iterdir()} & sys.stdlib_module_names


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    hosts = "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("files", "pythonhosted", "org"),
            ("proxy", "golang", "org"),
            ("deb", "debian", "org"),
            ("registry", "npmjs", "org"),
        )
    )
    forbidden = re.compile(rf"{hosts}|pypi\.org/simple")
    found = []
    for name in tracked():
        path = ROOT / name
        if name == "tests/contracts/test_layout.py" or not path.is_file():
            continue
        if forbidden.search(path.read_text(encoding="utf-8", errors="replace")):
            found.append(name)
    assert found == []


def test_no_lock_file_that_records_hosts_is_committed() -> None:
    assert not [name for name in tracked() if name.endswith(("uv.lock", "poetry.lock"))]


def test_frozen_values_of_the_worker_are_defined_the_quick_way() -> None:
    slow = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "worker").rglob("*.py")
        if "@dataclass(frozen=True" in (text := path.read_text())
        and re.search(r"^from dataclasses import .*\bdataclass\b", text, re.MULTILINE)
    ]
    assert slow == [], (
        "import dataclass from millgate.frozen: a child pays for each class it defines"
    )
