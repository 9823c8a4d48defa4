"""The guardian with a real fork: what its end looks like before the worker can take signals itself."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

GUARDED = """
import sys, time
from millgate.runtime.guardian import guard

def supervise(link, deadlines):
    print("up", flush=True)
    time.sleep(30)  # imports, on a busy machine
    return 1

sys.exit(guard(supervise))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it_well_and_without_a_traceback(
    number: signal.Signals,
) -> None:
    with subprocess.Popen(
        (sys.executable, "-c", GUARDED), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")
