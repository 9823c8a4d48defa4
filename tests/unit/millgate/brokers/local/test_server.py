"""The event loop of brokerd and its connections: what peers and the machine do to it ends nothing but themselves."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from millgate.brokers.base import Ask
from millgate.brokers.local import framing
from millgate.brokers.local.connection import Connection
from millgate.brokers.local.journal import Journal
from millgate.brokers.local.server import Server
from millgate.brokers.served import frames, values
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.engine import Call, Engine
from millgate.clock import SystemClock
from millgate.queues import TopicPolicy, policy_to_dict
from support.builders import a_message, a_worker, an_info
from support.clock import FakeClock

_KEY = b"k" * 32


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        yield sock


def a_server(listener: socket.socket, journal: Journal | None = None) -> Server:
    return Server(listener, lambda: _KEY, Engine(), journal, SystemClock())


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("said", [b"", b"something"])
def test_who_hangs_up_before_it_is_its_turn_ends_nothing(
    listener: socket.socket, said: bytes, tls: bool
) -> None:
    server = a_server(listener)
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
    hasty = socket.create_connection(listener.getsockname())
    hasty.sendall(said)
    hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    hasty.close()  # a reset, not an end
    with socket.create_connection(listener.getsockname()):
        for _ in range(3):
            server.turn(0.05)
        assert server._say()["connections"] == 1
    server.stop()
    server.run()


class Torrent(ssl.SSLSocket):
    """A peer over TLS that sends faster than anybody reads."""

    read_from = 0

    def __init__(self) -> None:
        """Nothing is connected."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        self.read_from += 1
        assert self.read_from < 1000, "it is read for ever"
        return b"x" * 16384

    def pending(self) -> int:
        return 0


def test_a_peer_that_sends_without_end_does_not_keep_the_server() -> None:
    connection = Connection(Torrent(), lambda: _KEY, 0.0)
    connection.read()
    assert len(connection._splitter._buffer) < 2**20


def test_what_was_read_of_a_peer_is_carried_out_before_more_of_it_is_read() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    connection = Connection(near, lambda: _KEY, 0.0)
    for _ in range(200):
        with suppress(BlockingIOError):
            far.send(framing.frame(b"x") * 20_000)
        connection.read()
        assert connection.next() == b"x"
    assert len(connection._splitter._buffer) < 2**20
    connection.close()
    far.close()


def test_a_disk_that_refuses_to_sync_is_not_asked_without_a_pause(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = FakeClock(), list[float]()
    journal = Journal(tmp_path, clock)
    assert list(journal.records()) == []
    server = Server(listener, lambda: _KEY, Engine(), journal, clock)

    def refuse(_handle: int) -> None:
        asked.append(clock.monotonic())
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        journal.append([b"one"], on_disk=False)
        for _ in range(300):
            server.turn(0.0)
            clock.advance(0.01)
    assert 2 <= len(asked) <= 4
    clock.advance(1.0)
    server.turn(0.0)
    assert not journal.unsynced
    server.stop()
    server.run()
    journal.close()


def serving_a_lease(
    listener: socket.socket, folder: Path, clock: FakeClock
) -> tuple[Server, Engine, Journal]:
    """A server of a message that a worker holds for 30 seconds, after its first turn."""
    engine, journal = Engine(), Journal(folder, clock)
    assert list(journal.records()) == []
    server = Server(listener, lambda: _KEY, engine, journal, clock)
    worker = values.from_worker(a_worker("w"))
    calls = [
        ("configure", [policy_to_dict(TopicPolicy("default", lease=30.0))], None, False),
        ("register", worker, values.from_info(an_info())),
        ("publish", values.from_messages([a_message(id="m")]), None),
        ("claim", worker, values.from_ask(Ask()), []),
    ]
    for number, (verb, *args) in enumerate(calls, 1):
        caller, payload = Caller("c", "q"), frames.pack([number, number, verb, args])
        journal.append([engine.record(clock.now(), caller, payload)])
        engine.apply(clock.now(), caller, Call.read(payload))
    server.turn(0.0)
    return server, engine, journal


@pytest.mark.parametrize("still", ["disk", "process"])
def test_time_in_which_it_stood_still_ends_no_lease(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, still: str
) -> None:
    clock = FakeClock()
    server, engine, journal = serving_a_lease(listener, tmp_path, clock)
    assert server._patience() == 1.0  # or it would not notice
    owner = server._selector if still == "process" else journal
    name = "select" if still == "process" else "sync"
    real = getattr(owner, name)

    def slow(*args: float) -> object:
        clock.advance(40.0)
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, slow)
        if still == "disk":
            journal.append([engine.resumption(clock.now())], on_disk=False)
            server._sync_at = 0.0
        server.turn(0.0)
    server.turn(0.0)
    queue = engine.queues["q"]
    assert queue.stats(clock.now() + 29).topics["default"].leased == 1
    assert queue.stats(clock.now() + 31).topics["default"].leased == 0
    server.stop()
    server.run()
    journal.close()


def test_time_in_which_nothing_was_to_be_done_is_no_standstill(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    journal = Journal(tmp_path, clock)
    assert list(journal.records()) == []
    server = Server(listener, lambda: _KEY, Engine(), journal, clock)
    waited = server._patience()
    assert waited is None
    monkeypatch.setattr(server._selector, "select", lambda _: clock.advance(3600.0) or [])
    monkeypatch.setattr(journal, "append", lambda _: pytest.fail("it stored something"))
    server.turn(waited)
    monkeypatch.undo()
    server.stop()
    server.run()
    journal.close()


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_is_followed_and_ends_no_lease(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: float
) -> None:
    clock = FakeClock()
    server, engine, journal = serving_a_lease(listener, tmp_path, clock)
    clock.step(by)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        server.turn(0.0)
        assert server._now == pytest.approx(clock.now() - by)  # it cannot be stored
    server.turn(0.0)
    server.turn(0.0)
    assert server._now == pytest.approx(clock.now())
    queue = engine.queues["q"]
    assert queue.stats(server._now + 29).topics["default"].leased == 1
    assert queue.stats(server._now + 31).topics["default"].leased == 0
    server.stop()
    server.run()
    journal.close()


def test_a_machine_that_cannot_fork_goes_on_with_its_journals(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, SystemClock(), smallest=10)
    assert journal.snapshot() is None
    assert list(journal.records()) == []
    server = a_server(listener, journal)

    def full() -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    caller = Caller("c", "q")
    engine = Engine()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", full)
        for number in range(1, 4):
            payload = frames.pack([number, number, "pause", ["default", True]])
            journal.append([engine.record(float(number), caller, payload)])
            server.turn(0.0)
    server.stop()
    server.run()
    journal.close()
    again = Journal(tmp_path, SystemClock())
    assert again.snapshot() is None
    verbs = [Call.read(frames.unpack(record)[3]).verb for record in again.records()]
    assert verbs == ["pause"] * 3
    again.close()
