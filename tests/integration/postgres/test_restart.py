"""The server goes away under load and comes back: nothing is lost, and nothing runs beside a live owner."""

from __future__ import annotations

import threading
import time
from collections import Counter

from millgate.brokers.postgres import PostgresBroker
from millgate.errors import BrokerUnavailable
from millgate.fleet import Beat
from millgate.message import Claim
from millgate.settlement import Ack
from support.builders import a_topic, some_messages
from support.postgres import open_queue
from support.servers import Postgres
from support.working import Hand


class Ledger:
    """What was accepted, started and finished, seen from outside."""

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.acked: Counter[str] = Counter()
        self.holders: dict[str, int] = {}
        self.beside: list[str] = []
        self._lock = threading.Lock()

    def start(self, claim: Claim, worker: int) -> None:
        with self._lock:
            if self.holders.get(claim.id, worker) != worker:
                self.beside.append(claim.id)
            self.holders[claim.id] = worker

    def end(self, claim: Claim, stale: bool) -> None:
        with self._lock:
            self.holders.pop(claim.id, None)
            if not stale:
                self.acked[claim.id] += 1


def _produce(broker: PostgresBroker, ledger: Ledger, stop: threading.Event) -> None:
    while not stop.is_set():
        batch = some_messages(20)
        while True:
            try:
                receipts = broker.publish(batch)
                break
            except BrokerUnavailable:
                continue
        ledger.accepted += [receipt.id for receipt in receipts]
        time.sleep(0.02)


def _work(broker: PostgresBroker, ledger: Ledger, number: int, stop: threading.Event) -> None:
    hand: Hand | None = None
    held: list[Claim] = []
    while not (stop.is_set() and not held):
        try:
            hand = hand or Hand(broker, f"w-{number}")
            if held:
                lost = broker.extend(hand.worker, [claim.ref for claim in held], Beat()).lost
                assert not lost, "a live owner keeps what it has"
            stale = set(broker.settle([Ack(claim.ref) for claim in held]))
            for claim in held:
                ledger.end(claim, claim.id in stale)
            held = [] if stop.is_set() else hand.claim(10)
            for claim in held:
                ledger.start(claim, number)
        except BrokerUnavailable:
            continue


def test_a_crash_and_a_restart_under_load_lose_nothing(own_server: Postgres, queue: str) -> None:
    own_server.settings["fsync"] = "on"
    own_server.restart()
    main = open_queue(queue, own_server.url())
    main.setup()
    main.configure([a_topic(lease=30.0)])
    ledger, stop, workers_stop = Ledger(), threading.Event(), threading.Event()
    clients = [open_queue(queue, own_server.url(), deadline=15.0) for _ in range(4)]
    threads = [threading.Thread(target=_produce, args=(clients[0], ledger, stop))]
    threads += [
        threading.Thread(target=_work, args=(client, ledger, n, workers_stop))
        for n, client in enumerate(clients[1:])
    ]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    own_server.kill()
    time.sleep(0.5)
    own_server.start()
    time.sleep(1.0)
    own_server.restart()
    time.sleep(1.0)
    stop.set()
    threads[0].join(30)
    end = time.monotonic() + 30
    while sum(ledger.acked.values()) < len(ledger.accepted) and time.monotonic() < end:
        time.sleep(0.1)
    workers_stop.set()
    for thread in threads[1:]:
        thread.join(30)
    stats = main.stats().topics["default"]
    assert ledger.beside == []
    # an ack whose reply was lost is stale in its repeat: carried out, and not counted by who sent it
    assert stats.completed == stats.enqueued == len(ledger.accepted)
    assert (stats.waiting, stats.leased, stats.delayed, stats.dead) == (0, 0, 0, 0)
    assert max(ledger.acked.values()) == 1
    for client in (main, *clients):
        client.close()
