"""Tests that share something expensive run in one process, which pytest and pytest-xdist must agree upon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import os
import pytest

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_one(number):
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


def test_a_group_s_tests_run_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-n", "3", "--dist", "loadgroup"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 6
    assert len(set(pids)) == 1, (
        "pytest-xdist ignores its groups with this pytest: see constraints.txt"
    )
