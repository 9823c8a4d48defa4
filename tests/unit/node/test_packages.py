"""What is missing on a machine is installed where we may, and named where we may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from node import packages
from node.packages import MissingPackages, Package
from support import programs

ABSENT = (Package("no-such-thing", "no-such-program"), Package("nor-this", files=("/no/file",)))


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """We are nobody who may install anything."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)


def test_all_that_is_missing_is_named_at_once(ordinary: None) -> None:
    with pytest.raises(MissingPackages, match=r"apt-get install no-such-thing nor-this") as error:
        packages.require((*ABSENT, Package("dash", "sh")), print)
    assert "dash" not in str(error.value)


def test_a_server_that_is_missing_is_named_by_its_packages(ordinary: None) -> None:
    with pytest.raises(RuntimeError, match=r"no-such-server is missing; .* postgresql pgbouncer"):
        programs.need("no-such-server", [], ["postgresql", "pgbouncer"])


def test_root_on_debian_installs_what_is_missing_and_looks_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(
        "shutil.which", lambda name, path=None: "/usr/bin/apt-get" if name == "apt-get" else None
    )
    file, said = tmp_path / "file", []
    monkeypatch.setattr(
        packages, "_install", lambda names: file.touch() if names == ["it"] else None
    )
    packages.require([Package("it", files=(str(file),))], said.append)
    assert said == ["installing it"]
    with pytest.raises(MissingPackages, match="installed other, but what they should hold"):
        packages.require([Package("other", files=(str(tmp_path / "absent"),))], said.append)
