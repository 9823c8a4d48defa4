"""Starting a child, or failing to: then nothing of it is left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from millgate.runtime import wire
from millgate.runtime.processes import children_of
from millgate.runtime.spawn import Spawner

HELLO = wire.encode(["hello", {"path": [], "app": "none:app"}])


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize("call", ["pidfd_open", "memfd_create", "pipe2"])
def test_a_child_that_cannot_be_had_leaves_no_descriptor_and_no_process(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "no more")

    spawner = Spawner(1, HELLO)
    before, children = descriptors(), children_of(os.getpid())
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(OSError, match="no more"):
            spawner.start()
    assert descriptors() == before
    assert children_of(os.getpid()) == children
    spawner.close()
