"""Runs one server program and ends it when whoever started this keeper is gone, even by SIGKILL.

Usage: python -I keeper.py STOP_SIGNAL USER FOLDER PROGRAM [ARGUMENT...]. The starter holds the other end of standard
input. A byte on it stops the program: STOP_SIGNAL, after ten seconds SIGKILL to its process group. When it closes
without one, the starter has died; then FOLDER, the program's files, is removed as well.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

GRACE = 10.0


def main(stop: int, user: str, folder: str, command: list[str]) -> int:
    """Run the command until it ends or standard input closes; answer its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal's signals are for the starter
    identity: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, restore_signals=True, start_new_session=True, **identity
    )
    ended = os.pidfd_open(program.pid)
    ready, _, _ = select.select([0, ended], [], [])
    abandoned = 0 in ready and not os.read(0, 1)
    if ended not in ready:
        program.send_signal(stop)
        try:
            program.wait(GRACE)
        except subprocess.TimeoutExpired:
            program.kill()
    code = program.wait()
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)  # what it left behind
    if abandoned:
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
