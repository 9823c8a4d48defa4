"""A brokerd that stands still, or whose disk does, takes nothing from owners who tried to renew meanwhile."""

from __future__ import annotations

import os
import signal
import threading

from support.builders import a_topic, some_messages
from support.local import Daemon
from support.working import Hand


def test_an_owner_whose_renewal_could_not_be_heard_keeps_its_lease_and_its_lock(
    daemon: Daemon,
) -> None:
    daemon.start()
    broker = daemon.client(deadline=60)
    broker.configure([a_topic(lease=5.0)])
    broker.publish(some_messages(1))
    hand = Hand(broker)
    claim = hand.one()
    lock = broker.acquire("lock", "me", 5.0)
    assert lock is not None
    pid = daemon.pid
    timer = threading.Timer(10.0, os.kill, (pid, signal.SIGCONT))
    timer.start()
    os.kill(pid, signal.SIGSTOP)
    hand.beat(claim)
    assert broker.renew("lock", "me", lock.fence, 30.0)
    timer.join()
    daemon.end(signal.SIGKILL)  # who reads the records comes to the same
    daemon.start()
    hand.ack(claim)
