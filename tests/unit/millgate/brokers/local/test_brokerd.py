"""brokerd as a process: what it hears while it is not serving yet."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from millgate.brokers.local import brokerd
from millgate.brokers.local.address import Place


def forked(run: Callable[[], None]) -> int:
    """The exit code of a process that does that, below zero for the signal that ended it."""
    pid = os.fork()
    if not pid:
        code = 70
        try:
            signal.alarm(60)
            run()
            code = 71
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_that_still_reads_what_is_stored_ends_in_order_when_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def told(*_: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    monkeypatch.setattr(brokerd, "_recover", told)
    path = tmp_path / "b.sock"
    how = brokerd.Brokerd(
        place=Place(path=path),
        key_file=tmp_path / "key",
        private_key=False,
        data=tmp_path / "data",
        starter=os.getpid(),
    )
    assert forked(lambda: brokerd.serve(how, lambda: None)) == 0
    assert not path.exists()
