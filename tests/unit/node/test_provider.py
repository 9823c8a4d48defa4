"""Which cluster is meant, and what has to be built for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from node import programs, provider
from node.__main__ import main
from node.programs import BuildFailed


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all the programs that this machine has; its cache is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(
        "node.settings.search_path", lambda *first: ":".join(map(str, [*first, folder]))
    )
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def has(machine: Path, name: str, code: int = 0) -> None:
    """Give the machine a program that ends with this code."""
    program = machine / name
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)


@pytest.mark.parametrize("kind", provider.KINDS)
def test_what_is_asked_for_is_meant(kind: str) -> None:
    assert provider.chosen(kind) == kind


@pytest.mark.parametrize(
    ("kind", "docker", "meant"),
    [(True, 0, "kind"), (True, 1, "node"), (True, None, "node"), (False, 0, "node")],
)
def test_kind_is_taken_where_a_docker_engine_answers(
    machine: Path, kind: bool, docker: int | None, meant: str
) -> None:
    if kind:
        has(machine, "kind")
    if docker is not None:
        has(machine, "docker", docker)
    assert provider.chosen("auto") == meant


def test_on_somebody_elses_cluster_nothing_is_built_that_the_machine_has(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in programs.CLIENTS:
        has(machine, name)
    assert main(["build", "--cluster", "kind"]) == 0
    assert capsys.readouterr().out.strip() == str(programs.folder())


def test_what_is_missing_there_is_named_beside_what_would_build_it(machine: Path) -> None:
    has(machine, "kubectl")
    with pytest.raises(BuildFailed, match=r"Go 1\.26 or newer.*kubectl and helm on the PATH"):
        programs.build_clients(lambda text: None)


def test_our_own_node_needs_all_programs_whatever_the_machine_has(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in programs.CLIENTS:
        has(machine, name)
    assert main(["build"]) == 1
    assert "Go 1.26 or newer is needed" in capsys.readouterr().err


def test_programs_of_other_versions_have_a_folder_of_their_own(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = programs.folder()
    here = tmp_path / "here"
    here.mkdir()
    for name in ("go.mod", "pause.c"):
        text = (programs.HERE / name).read_text()
        (here / name).write_text(text.replace("containerd/v2 v2.", "containerd/v2 v3."))
    monkeypatch.setattr(programs, "HERE", here)
    assert programs.folder() != before
    assert programs.folder().parent == before.parent == tmp_path / "cache" / "millgate" / "node"
