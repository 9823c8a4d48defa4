"""Forks brokerds for tests from a process that has everything loaded: a tenth of the time that a new Python takes.

Reads one JSON object a line, answers each with a process id. All end with it, and it ends with whoever started it.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_one = threading.Lock()  # an order and its answer


def start(queue: str, url: str, log: Path, smallest: int | None = None) -> int:
    """Start a brokerd as `millgate brokerd` would; its process id. `smallest`: bytes of the smallest journal that is
    followed by a snapshot."""
    order = {"queue": queue, "url": url, "log": str(log), "smallest": smallest}
    with _one:
        program = _program(os.getpid())
    assert program.stdin is not None
    assert program.stdout is not None
    with _one:
        program.stdin.write(json.dumps(order).encode() + b"\n")
        program.stdin.flush()
        return int(program.stdout.readline())


@cache
def _program(_pid: int) -> subprocess.Popen[bytes]:
    """One for each process that asks, which a forked child is as well."""
    tests = str(Path(__file__).parents[1])
    program = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, cwd="/",
        env={**os.environ, "PYTHONPATH": tests},
    )  # fmt: skip
    atexit.register(program.communicate)
    return program


def _serve(order: dict[str, Any]) -> None:
    """In the child: what `millgate brokerd` does."""
    from millgate.brokers.rabbitmq import brokerd
    from millgate.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(order["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    faulthandler.register(signal.SIGUSR2)  # its stack, into its log
    os.environ["MILLGATE_BROKER"] = order["url"]
    if order["smallest"] is not None:
        journal = vars(brokerd)["Journal"]
        vars(brokerd)["Journal"] = functools.partial(journal, smallest=order["smallest"])
    sys.argv = ["millgate", "brokerd", "--queue", order["queue"]]
    os._exit(main())


def _orders() -> None:
    from millgate.brokers.rabbitmq import brokerd, journal  # noqa: F401 -- loaded once, for all
    from millgate.cli import brokerd as command  # noqa: F401
    from millgate.cli import main  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    gc.freeze()
    mine = os.getpid()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
            if os.getppid() == mine:
                _serve(json.loads(line))
            os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    _orders()
