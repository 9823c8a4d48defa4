"""Many clients, slow ones, and what strangers send: nobody is held up, and nothing is allocated on their word."""

from __future__ import annotations

import resource
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millgate.brokers.base import Ask
from millgate.brokers.local import framing
from millgate.brokers.local.broker import LocalBroker
from millgate.brokers.local.link import Link, connect
from millgate.brokers.served import frames
from millgate.brokers.served.caller import Caller
from millgate.clock import SystemClock
from millgate.errors import InvalidInput, PayloadTooLarge
from millgate.fleet import Beat
from millgate.queues import Subscription, TopicPolicy
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info, some_messages
from support.local import Daemon
from support.wait import eventually

CLOCK = SystemClock()


def proved(daemon: Daemon, client: str) -> Link:
    return connect(daemon.address, Caller(client, "millgate"), CLOCK, CLOCK.monotonic() + 5)


def rss(pid: int) -> int:
    """Bytes of resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def work(daemon: Daemon, at: int, given: list[str], stop: threading.Event) -> None:
    """One worker: wait, claim, settle."""
    broker = daemon.client(deadline=30)
    worker = a_worker(f"w{at}")
    broker.register(worker, an_info())
    while not stop.is_set():
        if broker.wait_for_work(Subscription(), 5):
            claimed = broker.claim(worker, Ask()).claims
            given.extend(claim.id for claim in claimed)
            broker.settle([Ack(claim.ref) for claim in claimed])


def test_two_hundred_connections_share_it_and_each_message_goes_to_one(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    given: list[str] = []
    stop = threading.Event()
    with ThreadPoolExecutor(200) as pool:
        jobs = [pool.submit(work, daemon, at, given, stop) for at in range(200)]
        eventually(lambda: len(broker.stats().workers) == 200, timeout=30)
        assert broker.server().detail["connections"] > 200
        messages = some_messages(600)
        for at in range(0, 600, 50):
            broker.publish(messages[at : at + 50])
        eventually(lambda: len(given) == 600, timeout=30)
        stop.set()
        for client in daemon.clients:
            client.interrupt()
        for job in jobs:
            job.result(30)
    assert sorted(given) == sorted(message.id for message in messages)
    assert len(set(given)) == len(given)


def test_work_that_a_woken_worker_does_not_take_goes_to_the_others(daemon: Daemon) -> None:
    daemon.start()
    lazy, eager = daemon.client(), daemon.client()
    answers: list[str] = []

    def wait(name: str, client: LocalBroker) -> None:
        if client.wait_for_work(Subscription(), 5):
            answers.append(name)

    threads = []
    for name, client in (("lazy", lazy), ("eager", eager)):
        threads.append(threading.Thread(target=wait, args=(name, client)))
        threads[-1].start()
        time.sleep(0.2)
    before = time.monotonic()
    daemon.client().publish([a_message()])
    for thread in threads:
        thread.join()
    assert answers == ["lazy", "eager"]
    assert time.monotonic() - before < 4
    lazy.close()
    eager.close()


def test_a_renewal_does_not_wait_behind_a_wait_or_a_long_claim(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    thread = threading.Thread(target=broker.wait_for_work, args=(Subscription(), 5.0))
    thread.start()
    time.sleep(0.1)
    before = time.monotonic()
    for _ in range(20):
        broker.extend(worker, [], Beat())
    assert time.monotonic() - before < 4
    assert thread.is_alive()
    broker.interrupt()
    thread.join(1)
    assert not thread.is_alive()
    broker.close()


def test_an_interrupt_before_the_wait_is_kept(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.interrupt()
    before = time.monotonic()
    broker.wait_for_work(Subscription(), 5)
    assert time.monotonic() - before < 4
    assert not broker.wait_for_work(Subscription(), 0.05)
    broker.close()


def test_a_client_that_does_not_read_holds_up_nobody_and_costs_one_answer(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.configure([TopicPolicy(name="big", payload_max=4 * 2**20)])
    broker.publish([a_message(topic="big", body=b"x" * 2**20) for _ in range(8)])
    pid = daemon.pid
    before = rss(pid)
    slow = [proved(daemon, f"slow{at}") for at in range(4)]
    ask = framing.frame(frames.pack([1, 1, "peek", ["big", "waiting", 8]]))
    for link in slow:
        link._socket.settimeout(1)
        for _ in range(50):  # 50 times eight megabytes, if it answered them all
            link._socket.sendall(ask)
    longest = 0.0
    for _ in range(50):
        start = time.monotonic()
        broker.publish([a_message()])
        longest = max(longest, time.monotonic() - start)
    assert longest < 10  # a stalled reader is dropped after 30
    assert rss(pid) - before < 4 * 40 * 2**20
    # Who reads gets all that was asked for.
    end = CLOCK.monotonic() + 30
    slow[0]._splitter.bound = 2**30
    for _ in range(50):
        assert frames.unpack(slow[0].receive(end))[0] == 1
    for link in slow:
        link.close()
    broker.close()


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">I", 2**31) + b"x" * 100,
        struct.pack(">I", 5) + b"\xc1\xc1\xc1\xc1\xc1",
        struct.pack(">I", 0),
    ],
)
def test_what_a_stranger_sends_closes_its_connection_and_nothing_else(
    daemon: Daemon, said: bytes
) -> None:
    daemon.start()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(5)
        stranger.connect(str(daemon.path))
        stranger.sendall(said)
        assert stranger.recv(100) == b""
    daemon.client().stats()


def test_who_does_not_prove_the_key_in_time_is_dropped(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.environ["MILLGATE_PROBE_TIMEOUT"] = "300ms"
    import subprocess
    import sys

    from millgate.brokers.local import key

    key.create(daemon.address.key_file)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "millgate.cli", "brokerd", "--journal", "off"),
            *("--listen", str(daemon.path), "--key-file", str(daemon.address.key_file)),
        ],
        env=daemon.environ,
        stderr=subprocess.PIPE,
    )
    eventually(daemon.path.exists)
    eventually(lambda: daemon.pid)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.settimeout(5)
        silent.connect(str(daemon.path))
        before = time.monotonic()
        assert silent.recv(1) == b""
        assert 0.2 < time.monotonic() - before < 4
    process.terminate()
    process.communicate()
    assert process.returncode == 0


def test_a_call_that_is_too_large_is_refused_before_it_is_sent(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.configure([TopicPolicy(name="big", payload_max=16 * 2**20)])
    with pytest.raises(PayloadTooLarge, match="fewer at once"):
        broker.publish([a_message(topic="big", body=b"x" * 15 * 2**20) for _ in range(5)])
    assert broker.stats().topics.get("big") is None or not broker.stats().topics["big"].enqueued
    broker.publish([a_message(topic="big", body=b"x" * 15 * 2**20)])
    broker.close()


def test_what_cannot_travel_is_refused_by_the_client(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    with pytest.raises(InvalidInput):
        broker.extend(a_worker(), [], Beat(detail={"big": 2**70}))
    broker.close()
