"""Programs that are started: their lines, their ends, and that none of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millgate_operator.dev.children import Children, Ended, Event, Line
from support.wait import eventually


@pytest.fixture
def children() -> Iterator[Children]:
    children = Children()
    yield children
    children.close()


def until_ended(children: Children, name: str, timeout: float = 20.0) -> list[Event]:
    events: list[Event] = []
    end = time.monotonic() + timeout
    while name in children:
        assert time.monotonic() < end, events
        events += children.wait(0.1)
    return events


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_all_lines_come_before_the_end(children: Children) -> None:
    children.start(
        "c", python("print('a\\nb'); import sys; sys.stderr.write('no end')"), os.environ
    )
    events = until_ended(children, "c")
    assert events[-1] == Ended("c", 0)
    assert {event.text for event in events if isinstance(event, Line)} == {"a", "b", "no end"}


def test_an_exit_code_and_a_signal_are_told_apart(children: Children) -> None:
    children.start("fails", python("raise SystemExit(3)"), os.environ)
    children.start("killed", python("import os; os.kill(os.getpid(), 9)"), os.environ)
    events = until_ended(children, "fails") + until_ended(children, "killed")
    assert Ended("fails", 3) in events
    assert Ended("killed", -9) in events


def test_a_grandchild_that_keeps_the_pipe_does_not_hide_the_end(children: Children) -> None:
    code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    children.start("c", python(code), os.environ)
    (line,) = [event for event in until_ended(children, "c", 10.0) if isinstance(event, Line)]
    os.kill(int(line.text), signal.SIGKILL)


def test_a_flood_and_odd_bytes_are_taken(children: Children) -> None:
    code = "import sys; w = sys.stdout.buffer.write\nfor i in range(20000): w(b'x' * 50 + b'\\n')\nw(b'\\xff\\n')"
    children.start("c", python(code), os.environ)
    lines = [event.text for event in until_ended(children, "c") if isinstance(event, Line)]
    assert len(lines) == 20001
    assert lines[-1] == "\ufffd"


def test_ctrl_c_on_the_terminal_does_not_reach_them(children: Children) -> None:
    children.start("c", python("import os; print(os.getpid() == os.getsid(0))"), os.environ)
    assert Line("c", "True") in until_ended(children, "c")


def test_closing_kills_what_still_runs() -> None:
    children = Children()
    children.start(
        "c", python("import os, time; print(os.getpid(), flush=True); time.sleep(60)"), os.environ
    )
    lines = eventually(lambda: children.wait(0.1))
    assert isinstance(lines[0], Line)
    children.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines[0].text), 0)


def test_they_end_when_their_starter_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom millgate_operator.dev.children import Children\nc = Children()\n"
        "c.start('c', [sys.executable, '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'],"
        " os.environ)\nevents = []\n"
        "while not events: events = c.wait(0.1)\n"
        "print(events[0].text, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.kill()

    def gone() -> bool:
        status = Path(f"/proc/{pid}/stat")
        try:
            return status.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    assert eventually(gone)
