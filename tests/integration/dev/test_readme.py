"""What the README shows for one's own machine, typed as it stands there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.wait import eventually

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## On your own machine")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^\$ (millgate [^\n#]*[^\n# ])", SECTION, re.MULTILINE)
TEST = """
from hello.tasks import greet

def test_it_greets():
    assert greet.send("world").result(timeout=30) == "Hello, world!"
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The two manifests and the app, as the README has them, and a test to run."""
    for number, text in enumerate(blocks("yaml")):
        (tmp_path / f"{number}.yaml").write_text(text)
    (tmp_path / "hello").mkdir()
    (tmp_path / "hello/tasks.py").write_text(blocks("python")[0])
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_hello.py").write_text(TEST)
    return tmp_path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A shell in which this environment is active, with a home of its own."""
    programs = Path(sys.executable).parent
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    return {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


@pytest.fixture
def dev(folder: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The README's first command, in the background."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            COMMANDS[0].split(), cwd=folder, env=environ, stdout=log, stderr=log
        )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def shell(command: str, folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_section_shows_these_commands() -> None:
    assert [" ".join(command.split()[:2]) for command in COMMANDS] == [
        "millgate dev", "millgate dev", "millgate send", "millgate status", "millgate why",
    ]  # fmt: skip


def test_the_other_terminal_sends_looks_and_asks_why(
    folder: Path, environ: dict[str, str], dev: subprocess.Popen[bytes]
) -> None:
    log = folder / "log"
    first = eventually(lambda: (log.read_text().splitlines() or [""])[0], timeout=30)
    found = re.search(r"broker (\S+), queue (\S+)$", first)
    assert found is not None, first
    environ |= {"MILLGATE_BROKER": found[1], "MILLGATE_QUEUE": found[2]}
    send, status, why = COMMANDS[2:]
    assert "Hello, world!" in shell(send, folder, environ)
    assert "greetings" in shell(status, folder, environ)
    assert "invoices" in shell(why, folder, environ)
    dev.send_signal(signal.SIGINT)
    assert dev.wait(60) == 0


def test_a_command_within_finds_the_broker(folder: Path, environ: dict[str, str]) -> None:
    assert "1 passed" in shell(COMMANDS[1], folder, environ)
