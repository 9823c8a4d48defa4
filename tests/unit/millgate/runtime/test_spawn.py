"""Starting a child, or failing to: then nothing of it is left."""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import pytest

from millgate.clock import SystemClock
from millgate.runtime import wire
from millgate.runtime.preload import START_TIMEOUT, NotYet, TemplateEnded
from millgate.runtime.processes import children_of
from millgate.runtime.spawn import Spawner
from support.clock import FakeClock
from support.wait import eventually

HELLO = wire.encode(["hello", {"path": [], "app": "none:app"}])


def test_where_python_keeps_no_compiled_modules_children_have_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "cache_from_source", lambda _: str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spawner = Spawner(1, HELLO, SystemClock())
    spawned = spawner.start()
    [folder] = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o77 == 0  # nobody else plants code there
    eventually(lambda: list(folder.rglob("child.*.pyc")))
    os.kill(spawned.pid, 9)
    spawned.reap()
    for handle in (spawned.pidfd, spawned.output):
        os.close(handle)
    spawned.link.close()
    spawned.table.close()
    spawner.close()
    assert list(tmp_path.iterdir()) == []


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("call", ["pidfd_open", "memfd_create", "pipe2"])
def test_a_child_that_cannot_be_had_leaves_no_descriptor_and_no_process(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "no more")

    spawner = Spawner(1, HELLO, SystemClock())
    before, children = descriptors(), children_of(os.getpid())
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(OSError, match="no more"):
            spawner.start()
    assert descriptors() == before
    assert children_of(os.getpid()) == children
    spawner.close()


def test_a_template_that_never_has_the_app_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    clock = FakeClock()
    hello = wire.encode(["hello", {"path": [str(tmp_path)], "app": "stuck:app"}])
    spawner = Spawner(1, hello, clock, preload=True)
    with pytest.raises(NotYet):
        spawner.start()
    [template] = spawner.helpers
    clock.advance(START_TIMEOUT + 1)
    with pytest.raises(TemplateEnded, match="120s"):
        spawner.start()
    assert spawner.helpers == set()
    assert template not in children_of(os.getpid())
    spawner.close()
