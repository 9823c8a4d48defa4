"""Whether processes have been born is told by one number, or not at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from millgate.runtime.births import Births


def test_the_number_changes_with_every_birth() -> None:
    births = Births()
    seen = [births.latest()]
    for _ in range(3):
        subprocess.run(["true"], check=True)
        seen.append(births.latest())
    births.close()
    assert None not in seen
    assert len(set(seen)) == 4


@pytest.mark.parametrize("text", ["0.00 0.00 0.00 0/0 0\n", "", "what\n"])
def test_what_tells_nothing_is_unknown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "loadavg"
    file.write_text(text, encoding="ascii")
    births = Births(str(file))
    assert births.latest() is None
    births.close()


def test_a_file_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    assert Births(str(tmp_path / "none")).latest() is None
