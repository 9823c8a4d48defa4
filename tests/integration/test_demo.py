"""The quickstart as a user runs it, on a part of the standard library: it counts, it sums up, it leaves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


def run(*arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "millgate.cli", "dev", "-f", str(QUICKSTART))
    return subprocess.run(
        (*command, *arguments), capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    report = tmp_path_factory.mktemp("demo") / "report.txt"
    return run("--once", "driver.py", "--", "--files", "120", "--report", str(report))


def test_it_ends_by_itself_and_well(demo: subprocess.CompletedProcess[str]) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Traceback" not in demo.stderr


def test_every_file_is_counted_as_in_the_independent_count(
    demo: subprocess.CompletedProcess[str],
) -> None:
    by_tasks = re.search(r"counted by tasks: +([\d,]+) files, ([\d,]+) lines", demo.stdout)
    here = re.search(r"counted here: +([\d,]+) files, ([\d,]+) lines: the same", demo.stdout)
    assert by_tasks is not None
    assert here is not None
    assert by_tasks.groups() == here.groups()
    assert by_tasks[1] == "120"


def test_the_summary_shows_topics_workers_and_the_limit(
    demo: subprocess.CompletedProcess[str],
) -> None:
    rows = {line.split()[0]: line.split() for line in demo.stdout.splitlines() if line.strip()}
    assert rows["files"][1:4] == ["-", "120", "0"]
    assert all(re.fullmatch(r"[\d.]+m?s|\d+m\d+s", wait) for wait in rows["files"][5:7]), (
        "p50 and p99"
    )
    assert rows["report"][1] == "1"
    assert rows["TOPIC"][:2] == ["TOPIC", "LIMIT"]
    tasks = sum(int(row[1]) for name, row in rows.items() if re.fullmatch(r"hello-\d+", name))
    assert tasks == 120 + 1 + int(rows["report"][2])
    assert rows["hello-1"][2] != "?"


def test_the_greedy_task_is_stopped_alone(demo: subprocess.CompletedProcess[str]) -> None:
    letters = [line.split() for line in demo.stdout.splitlines() if line.startswith("hoard  ")]
    assert ["hoard", "-", "0", "1", "0"] in [row[:5] for row in letters]
    assert ["hoard", "tasks.hoard", "MemoryExceeded"] in [row[:3] for row in letters]
    stopped = sum(
        int(line.split()[-1])
        for line in demo.stdout.splitlines()
        if re.match(r"hello-\d+ +\d", line)
    )
    assert stopped >= 1


def test_it_leaves_no_process_and_no_file(demo: subprocess.CompletedProcess[str]) -> None:
    place = re.search(r"broker local:/*(/[^ ?]+)", demo.stdout)
    assert place is not None
    folder = Path(place[1]).parent
    assert folder.parent == Path(tempfile.gettempdir())
    assert not folder.exists()
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(folder).encode() not in status.read_bytes()
        except OSError:
            continue  # it ended meanwhile


def test_a_report_that_nobody_asked_for_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert run("--once", "driver.py", "--", "--files", "5").returncode == 0
    assert list(tmp_path.glob("millgate-d*")) == []


def test_a_wrong_count_is_a_failure(tmp_path: Path) -> None:
    """The example's own check: a driver that counts something else ends with 1, and so does the command."""
    driver = (QUICKSTART / "driver.py").read_text(encoding="utf-8")
    wrong = tmp_path / "driver.py"
    wrong.write_text(driver.replace("len(chosen), sum(", "len(chosen), 1 + sum("))
    done = run("--once", str(wrong), "--", "--files", "5")
    assert done.returncode == 1, done.stdout
    assert "ANOTHER" in done.stdout
