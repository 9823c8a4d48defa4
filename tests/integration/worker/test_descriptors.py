"""No descriptor is left: brokers say so in words of ours and go on later, and a child that leaks them is replaced."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from support.bench import every_broker
from support.wait import eventually

#: Says what each call of a broker object raises while nothing can be opened, and that all go on afterwards.
PROGRAM = """
import json, os, resource, socket, sys, time
from millgate.brokers import open_broker
from millgate.errors import BrokerUnavailable

url, queue = sys.argv[1:]
said = []

def hoard():
    held = []
    while True:
        try:
            held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return held

def starve(*calls):
    held = hoard()
    for call in calls:
        try:
            call()
            said.append("nothing was missing")
        except BrokerUnavailable as error:
            said.append(str(error))
        except BaseException as error:
            said.append(repr(error))
    for number in held:
        os.close(number)

def cut():
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as end:
                end.shutdown(socket.SHUT_RDWR)  # a driver's own bells are among them
        except OSError:
            continue

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
broker = open_broker(url, queue=queue, deadline=3.0)
starve(broker.setup, broker.stats)  # before there is a connection
broker.setup()
broker.stats()
cut()
starve(broker.stats)  # after it was lost
broker.stats()
starve(lambda: open_broker(url, queue=queue, deadline=3.0).stats())  # another one
broker.stats()
print(json.dumps(said))
"""


@every_broker
def test_a_broker_object_says_that_no_descriptor_is_left_and_goes_on_later(bench: Any) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, bench.url, bench.queue],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""  # no thread has ended with a traceback
    before, without, lost, another = json.loads(run.stdout)
    for text in (before, without, another):
        assert "ulimit -n" in text, text
    # a new connection may do with the descriptor of the one that was lost
    assert lost == "nothing was missing" or "ulimit -n" in lost, lost


def test_a_child_without_descriptors_is_replaced_after_the_task_that_failed(bench: Any) -> None:
    bench.configure()
    first = bench.send("who")
    failed = bench.send("hoard")
    last = bench.send("who")
    worker = bench.ready(children=1)
    assert "Too many open files" in bench.end_of(failed).failure.message
    bench.end_of(last)
    eventually(lambda: worker.status()["recycles"] == {"Descriptors": 1})
    [ended] = worker.events("child ended")
    assert (ended["reason"], ended["level"]) == ("Descriptors", "warning")
    again = bench.send("who")
    assert bench.result(again) != bench.result(first)
