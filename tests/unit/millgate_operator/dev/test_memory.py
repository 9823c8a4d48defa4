"""Weighing a process tree."""

from __future__ import annotations

import subprocess
import sys

from millgate_operator.dev.memory import tree_rss
from support.wait import eventually

_MB = 2**20


def test_descendants_are_weighed_with_their_root() -> None:
    grow = "held = bytearray(60 * 2**20); print(flush=True); import time; time.sleep(60)"
    code = (
        "import subprocess, sys\n"
        f"with subprocess.Popen([sys.executable, '-c', {grow!r}], stdout=subprocess.PIPE) as child:\n"
        "    child.stdout.readline(); print(flush=True)\n"
        "    sys.stdin.read(); child.kill()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as root:
        assert root.stdout is not None
        root.stdout.readline()
        weight = tree_rss(root.pid)
        assert weight is not None
        assert 60 * _MB < weight < 120 * _MB
    assert eventually(lambda: tree_rss(root.pid) is None)
