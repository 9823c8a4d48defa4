"""An idle brokerd sleeps: no processor time, no wake-ups, whoever waits."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from millgate.brokers.base import Ask
from millgate.queues import Subscription
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info
from support.local import Daemon


def switches(pid: int) -> int:
    """How often the process went to sleep so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)


def ticks(pid: int) -> int:
    """Processor time so far, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_with_workers_waiting_and_messages_delayed_it_does_not_wake_up(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    broker.publish([a_message(id="done"), a_message(id="later", delay=3600)])
    claim = broker.claim(worker, Ask()).claims[0]
    broker.settle([Ack(claim.ref, b"1")])
    waits = [
        threading.Thread(target=daemon.client().wait_for_work, args=(Subscription(), 30.0)),
        threading.Thread(target=daemon.client().wait_for_work, args=(Subscription(), 30.0)),
    ]
    for thread in waits:
        thread.start()
    time.sleep(0.5)
    pid = daemon.pid
    time.sleep(0.1)
    before = (switches(pid), ticks(pid))
    time.sleep(3)
    after = (switches(pid), ticks(pid))
    assert after[0] - before[0] <= 1
    assert after[1] - before[1] == 0
    for client in daemon.clients:
        client.interrupt()
    for thread in waits:
        thread.join()


def test_what_becomes_due_wakes_who_waits_without_anybody_asking(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.publish([a_message(delay=0.5)])
    before = time.monotonic()
    assert broker.wait_for_work(Subscription(), 10)
    assert 0.4 < time.monotonic() - before < 5
