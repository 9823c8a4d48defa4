"""The guardian with a real fork: what it becomes, and how it ends before the worker can take signals itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millgate.runtime import sentinel
from support.wait import eventually

GUARDED = """
import os, sys, time
from millgate.runtime.guardian import guard

def supervise(link, deadlines):
    print(os.getppid(), flush=True)
    time.sleep({seconds})  # imports, on a busy machine
    return 7

{before}
sys.exit(guard(supervise))
"""


def guarded(seconds: float, before: str = "") -> subprocess.Popen[str]:
    """A guardian over a supervisor that sleeps."""
    code = GUARDED.format(seconds=seconds, before=before)
    return subprocess.Popen(
        (sys.executable, "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it_well_and_without_a_traceback(
    number: signal.Signals,
) -> None:
    with guarded(30) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid}\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")


def test_it_becomes_a_small_program_of_the_same_number_with_the_supervisors_exit_code() -> None:
    with guarded(1.0) as process:
        command = Path(f"/proc/{process.pid}/cmdline")
        eventually(lambda: b"millgate.runtime.sentinel" in command.read_bytes())
        said, complaint = process.communicate(timeout=20)
    assert (process.returncode, said, complaint) == (7, f"{process.pid}\n", "")


def test_where_it_cannot_become_that_it_does_the_same_as_it_is() -> None:
    with guarded(0.1, "sys.executable = '/nowhere/python'") as process:
        said, complaint = process.communicate(timeout=20)
    assert (process.returncode, said, complaint) == (7, f"{process.pid}\n", "")


def test_its_program_imports_next_to_nothing() -> None:
    source = "import sys, millgate.runtime.sentinel; print(*sys.modules)"
    home = Path(sentinel.__file__).parents[2]
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append({str(home)!r}); {source}",
    ]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "millgate.runtime.processes" in loaded
    assert not {"typing", "enum", "signal", "re", "collections", "socket"} & set(loaded)
