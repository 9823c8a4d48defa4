"""A call whose answer was lost is sent again, and changes nothing the second time."""

from __future__ import annotations

import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from millgate.brokers.base import Ask
from millgate.brokers.local.address import Place
from millgate.brokers.local.broker import LocalBroker
from millgate.brokers.local.link import Link, connect
from millgate.brokers.served import frames, values
from millgate.brokers.served.caller import Caller
from millgate.clock import SystemClock
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info, some_messages
from support.local import Daemon

CLOCK = SystemClock()


def linked(daemon: Daemon, client: str = "me") -> Link:
    return connect(daemon.address, Caller(client, "millgate"), CLOCK, CLOCK.monotonic() + 5)


def said(link: Link, number: int, verb: str, *args: Any, settled: int = 0) -> Any:
    end = CLOCK.monotonic() + 5
    link.send(frames.pack([number, settled, verb, args]), end)
    return frames.unpack(link.receive(end))


def test_a_repeated_claim_is_answered_the_same_also_by_a_brokerd_that_was_killed(
    daemon: Daemon,
) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    broker.publish(some_messages(10))
    claim: tuple[Any, ...] = ("claim", values.from_worker(worker), values.from_ask(Ask(n=2)), [])
    link = linked(daemon)
    first = said(link, 7, *claim)
    assert len(first[1][0]) == 2
    link.close()
    link = linked(daemon)
    assert said(link, 7, *claim) == first
    link.close()
    daemon.end(signal.SIGKILL)
    daemon.start()
    link = linked(daemon)
    assert said(link, 7, *claim) == first
    link.close()
    daemon.end(signal.SIGTERM)  # leaves a snapshot in place of the journal
    daemon.start()
    link = linked(daemon)
    assert said(link, 7, *claim) == first
    assert said(link, 8, *claim, settled=8)[1][0][0][0] != first[1][0][0][0]
    link.close()
    assert broker.stats().topics["default"].leased == 4
    broker.close()


def test_a_call_that_comes_after_its_caller_gave_it_up_is_not_carried_out(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    broker.publish(some_messages(3))
    claim: tuple[Any, ...] = ("claim", values.from_worker(worker), values.from_ask(Ask(n=1)), [])
    quick, slow = linked(daemon), linked(daemon)
    assert len(said(quick, 5, *claim)[1][0]) == 1
    said(quick, 6, "pause", "other", True, settled=6)
    assert said(slow, 5, *claim)[1] == "BrokerUnavailable"  # the repeat, held up on its way
    assert broker.stats().topics["default"].leased == 1
    quick.close()
    slow.close()
    daemon.end()  # leaves a snapshot, which knows it too
    daemon.start()
    again = linked(daemon)
    assert said(again, 5, *claim)[1] == "BrokerUnavailable"
    assert broker.stats().topics["default"].leased == 1
    again.close()
    broker.close()


def test_answers_that_have_arrived_are_forgotten(daemon: Daemon) -> None:
    daemon.start()
    link = linked(daemon)
    body = b"x" * 50_000
    for number in range(200):
        message = values.from_message(a_message(id=f"m{number}", body=body))
        assert said(link, number, "publish", [message], None, settled=number)[1] == [
            [f"m{number}", False]
        ]
    for number in range(200, 400):
        said(link, number, "purge", "default", ["waiting"], settled=number)
    link.close()
    daemon.end()
    snapshot = next(daemon.address.data.glob("snapshot-*"))
    assert snapshot.stat().st_size < 20_000


def test_two_clients_with_the_same_number_are_not_mixed_up(daemon: Daemon) -> None:
    daemon.start()
    one, two = linked(daemon, "one"), linked(daemon, "two")
    first = said(one, 1, "publish", [values.from_message(a_message(id="a"))], None)
    second = said(two, 1, "publish", [values.from_message(a_message(id="b"))], None)
    assert (first[1], second[1]) == ([["a", False]], [["b", False]])
    one.close()
    two.close()


class Cutting:
    """A relay that hands calls on and cuts the connection in place of every n-th answer."""

    def __init__(self, path: Path, target: Path, every: int) -> None:
        self.target, self.every, self.cuts, self.answers = target, every, 0, 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.target))
            threading.Thread(target=self.pump, args=(near, far), daemon=True).start()
            threading.Thread(target=self.answer, args=(far, near), daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass

    def answer(self, source: socket.socket, sink: socket.socket) -> None:
        seen = 0
        try:
            while data := source.recv(2**20):
                seen += 1
                self.answers += seen > 2  # the handshake's are not counted
                if seen > 2 and self.answers % self.every == 0:
                    self.cuts += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_with_every_third_answer_lost_each_message_is_published_and_given_once(
    daemon: Daemon, tmp_path: Path
) -> None:
    daemon.start()
    relay = Cutting(tmp_path / "cut.sock", daemon.path, 3)
    place = replace(daemon.address.place, path=tmp_path / "cut.sock")
    broker = LocalBroker(replace(daemon.address, place=place), "millgate", 10.0)
    worker = a_worker()
    broker.register(worker, an_info())
    receipts = [broker.publish([a_message(id=f"m{at}")])[0] for at in range(60)]
    assert not any(receipt.duplicate for receipt in receipts)
    given: list[str] = []
    acks: list[Ack] = []
    while True:
        claimed = broker.claim(worker, Ask(n=3), acks)
        assert claimed.stale == ()
        given += [claim.id for claim in claimed.claims]
        acks = [Ack(claim.ref) for claim in claimed.claims]
        if not acks:
            break
    assert given == [f"m{at}" for at in range(60)]
    assert relay.cuts > 20
    relay.listener.shutdown(socket.SHUT_RDWR)
    relay.listener.close()
    broker.close()


class Hole:
    """A relay from TCP; once it is told to, the connections that it has swallow everything, new ones work."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.swallowing: set[socket.socket] = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.target))
            self.sockets += (near, far)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self.swallowing:
                    sink.sendall(data)

    def swallow(self) -> None:
        self.swallowing.update(self.sockets)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        for one in (self.listener, *self.sockets):
            one.close()


def test_a_connection_that_went_silent_is_left_for_a_new_one_within_the_deadline(
    daemon: Daemon,
) -> None:
    daemon.start()
    hole = Hole(daemon.path)
    address = replace(daemon.address, place=Place(host="127.0.0.1", port=hole.port))
    broker = LocalBroker(address, "millgate", 12.0)
    broker.publish([a_message(id="before")])
    hole.swallow()
    before = time.monotonic()
    broker.publish([a_message(id="during")])
    assert time.monotonic() - before < 10  # a third of the deadline, and a new connection
    assert broker.stats().topics["default"].enqueued == 2
    broker.close()
    hole.close()
