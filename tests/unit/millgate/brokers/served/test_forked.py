"""A forked copy writes the state of the moment at which it was made, and says whether it could."""

from __future__ import annotations

import errno
import gc
import os
import signal
import time
from pathlib import Path

import pytest

from millgate.brokers.served.forked import fork
from support.local import gone
from support.wait import eventually


def test_the_copy_writes_the_state_of_its_moment(tmp_path: Path) -> None:
    state, path = ["then"], tmp_path / "state"
    writer = fork(lambda: path.write_text(state[0]))
    state[0] = "later"
    assert writer is not None
    eventually(lambda: not writer.running())
    assert writer.end() == len("then")
    assert path.read_text() == "then"


def test_a_copy_that_cannot_write_says_so(tmp_path: Path) -> None:
    writer = fork(lambda: (tmp_path / "none" / "state").write_text("x"))
    assert writer is not None
    assert writer.end() is None


def test_a_machine_without_room_for_a_copy_is_told_of_and_nothing_stays_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    gc.collect()  # or what others left would close its descriptors meanwhile, and others take their numbers
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- the numbers alone
    assert fork(lambda: 0) is None
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert "the journals go on" in caplog.text


def test_a_copy_ends_with_the_process_that_it_is_of(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def write() -> int:
        (tmp_path / "part").write_text(str(os.getpid()))
        (tmp_path / "part").rename(told)
        time.sleep(60)
        return 0

    parent = os.fork()
    if not parent:
        fork(write)
        signal.pause()
        os._exit(1)
    eventually(told.exists)
    copy = int(told.read_text())
    assert not gone(copy)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    eventually(lambda: gone(copy))
