"""Who finds what at an address: a sibling's broker, an orphan, a stranger, another key, silence; and many at once."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from millgate.brokers.base import Broker
from millgate.brokers.local.address import Place
from millgate.brokers.local.broker import LocalBroker
from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
)
from support.builders import a_message
from support.local import Daemon, gone
from support.programs import free_port
from support.wait import eventually

#: Sets the broker up in a process of its own, says the server's pid, and lives until its input ends.
STARTER = """
import sys
from millgate.brokers import open_broker
broker = open_broker(sys.argv[1])
broker.setup()
print(broker.server().detail["pid"], flush=True)
sys.stdin.read()
"""


def starter(daemon: Daemon) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, daemon.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **daemon.environ},
    )


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate()
    assert process.returncode == 0


def states(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.state for record in caplog.records if hasattr(record, "state")]


@contextmanager
def peer(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something that listens and is no broker."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            serve(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def impatient(daemon: Daemon) -> LocalBroker:
    """A client whose probe gives up soon."""
    return LocalBroker(replace(daemon.address, probe_timeout=0.4), "millgate", 2.0)


def refused(broker: LocalBroker, kind: type[BrokerError], match: str) -> None:
    """Expect that `setup` ends so, however often it is tried."""
    for _ in range(2):
        with pytest.raises(kind, match=match):
            broker.setup()


def test_the_first_starts_it_and_says_so_once(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = daemon.client()
    for _ in range(3):
        broker.setup()
    assert states(caplog) == ["own"]
    assert broker.server().detail["starter"] == os.getpid()
    broker.close()


def test_a_living_siblings_broker_is_joined_and_then_taken_over_each_said_once(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sibling = starter(daemon)
    assert sibling.stdout is not None
    pid = int(sibling.stdout.readline())
    broker = daemon.client()
    broker.setup()
    broker.setup()
    assert states(caplog) == ["sibling"]
    broker.publish([a_message(id="m")])
    ended(sibling)

    eventually(lambda: broker.server().detail["orphan"])
    broker.setup()
    broker.setup()
    assert states(caplog) == ["sibling", "orphan"]
    assert broker.server().detail["pid"] == pid
    assert broker.states(["m"])[0].topic == "default"
    broker.close()


def test_a_forked_child_of_the_starter_is_a_sibling_and_has_connections_of_its_own(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    others = _sockets()  # that other tests of this process have left open
    broker = daemon.client()
    broker.setup()
    broker.publish([a_message(id="parent")])
    assert _sockets() - others
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        caplog.clear()
        sockets = _sockets() - others
        broker.setup()
        known = broker.states(["parent"])[0].state
        os.write(writer, f"{states(caplog)} {len(sockets)} {known}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000) == b"['sibling'] 0 waiting"
    assert broker.states(["parent"])[0].topic == "default"
    assert daemon.pid
    os.close(reader)
    os.close(writer)
    broker.close()


def _sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that the folder was read by
            found.add(str(entry.readlink()))
    return {name for name in found if name.startswith("socket:")}


def test_a_peer_that_speaks_something_else_is_a_stranger(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    def banner(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
            connection.recv(1000)

    with peer(daemon.path, banner):
        refused(impatient(daemon), ForeignPeer, "not a Millgate broker")
    assert states(caplog) == ["ForeignPeer"]


def test_a_peer_that_hangs_up_at_once_is_a_stranger(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    with peer(daemon.path, lambda connection: connection.close()):
        refused(impatient(daemon), ForeignPeer, "hangs up")
    assert states(caplog) == ["ForeignPeer"]


@pytest.mark.parametrize("said", [b"", b"\0"])
def test_a_peer_that_is_silent_or_says_one_byte_is_given_up_within_the_probes_timeout(
    daemon: Daemon, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    kept = []

    def one_byte(connection: socket.socket) -> None:
        kept.append(connection)
        if said:
            connection.sendall(said)

    with peer(daemon.path, one_byte):
        before = time.monotonic()
        refused(impatient(daemon), BrokerTimeout, "did not say within")
        assert time.monotonic() - before < 5
    assert states(caplog) == ["TimedOut"]
    for connection in kept:
        connection.close()


def test_a_brokerd_that_stands_still_is_given_up_and_used_again_when_it_goes_on(
    daemon: Daemon,
) -> None:
    daemon.start()
    broker = daemon.client(deadline=15)
    broker.publish([a_message(id="m")])
    pid = daemon.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(BrokerTimeout):
            impatient(daemon).setup()
        threading.Timer(1.0, os.kill, (pid, signal.SIGCONT)).start()
        assert broker.states(["m"])[0].topic == "default"
    finally:
        os.kill(pid, signal.SIGCONT)
    broker.close()


def test_another_key_is_refused_by_both_sides(
    daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.start()
    other = tmp_path / "other"
    other.write_text("not the key of this broker at all")
    stranger = LocalBroker(replace(daemon.address, key_file=other), "millgate", 2.0)
    refused(stranger, AuthFailed, "another key")
    assert states(caplog) == ["AuthFailed"]
    with pytest.raises(AuthFailed, match="another key"):
        stranger.stats()
    stranger.close()


def test_a_users_own_key_must_be_closed_to_others(daemon: Daemon) -> None:
    daemon.start()
    daemon.address.key_file.chmod(0o644)
    own = LocalBroker(replace(daemon.address, private_key=True), "millgate", 2.0)
    with pytest.raises(AuthFailed, match="open to others"):
        own.stats()
    own.close()


def test_nothing_is_started_at_another_machines_address(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    far = replace(daemon.address, place=Place(host="ip6-localhost.invalid", port=port))
    with pytest.raises(BrokerUnavailable):
        LocalBroker(far, "millgate", 1.0).setup()
    assert not list(tmp_path.glob("*.start"))


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({}, "; start a worker or `millgate brokerd`"),
        ({"tls": True}, "; start one there: millgate brokerd --listen HOST:PORT --key-file FILE"),
    ],
)
def test_who_calls_before_it_is_started_is_told_how_to(
    tmp_path: Path, changes: dict[str, bool], advice: str
) -> None:
    place = Place(host="127.0.0.1", port=free_port())
    address = replace(Daemon(tmp_path).address, place=place, **changes)
    broker = LocalBroker(address, "millgate", 0.3)
    with pytest.raises(BrokerUnavailable) as refused:
        broker.publish([a_message()])
    assert str(refused.value) == f"no broker at {place}: Connection refused{advice}"
    broker.close()


def test_it_is_started_at_a_port_of_this_machine_too(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    address = replace(daemon.address, place=Place(host="127.0.0.1", port=free_port()))
    first, second = (LocalBroker(address, "millgate", 10.0) for _ in range(2))
    first.setup()
    pid = int(first.server().detail["pid"])
    try:
        first.publish([a_message(id="m")])
        second.setup()
        assert second.states(["m"])[0].topic == "default"
        assert states(caplog) == ["own"]
    finally:
        os.kill(pid, signal.SIGTERM)
    eventually(lambda: gone(pid))
    first.close()
    second.close()


def test_of_twenty_that_begin_at_once_one_starts_it_and_all_use_it(daemon: Daemon) -> None:
    starters = [starter(daemon) for _ in range(20)]
    pids = set()
    for process in starters:
        assert process.stdout is not None
        pids.add(process.stdout.readline().strip())
    for process in starters:
        ended(process)
    assert pids == {str(daemon.pid)}


def test_the_socket_of_a_killed_brokerd_is_in_nobodys_way(daemon: Daemon) -> None:
    daemon.start()
    first = daemon.pid
    daemon.end(signal.SIGKILL)
    assert daemon.path.is_socket()
    daemon.start()
    assert daemon.pid != first


def test_a_file_that_is_no_socket_is_left_alone(daemon: Daemon) -> None:
    daemon.path.write_text("precious")
    with pytest.raises((BrokerRefused, BrokerUnavailable), match="not a socket"):
        daemon.client(deadline=3).setup()
    assert daemon.path.read_text() == "precious"


def test_it_outlives_its_starter_and_leaves_no_zombie(daemon: Daemon) -> None:
    process = starter(daemon)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    assert children.split() == []
    process.kill()
    process.communicate()
    time.sleep(0.3)
    assert daemon.pid == pid


def test_on_request_it_dies_with_its_starter_but_not_with_a_child_of_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "&die_with_parent=on")
    process = starter(daemon)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert not gone(pid)
    process.kill()
    process.communicate()
    eventually(lambda: gone(pid))
    assert not daemon.path.exists()


def test_a_second_broker_on_the_same_data_is_refused(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.start()
    monkeypatch.setenv("MILLGATE_PROBE_TIMEOUT", "300ms")  # its patience too
    other = replace(daemon.address, place=type(daemon.address.place)(path=tmp_path / "other.sock"))
    with pytest.raises(BrokerRefused, match="another broker works in"):
        LocalBroker(other, "millgate", 5.0).setup()


def test_a_folder_that_cannot_be_written_is_refused_with_the_way_out(
    daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    other = replace(daemon.address, data=tmp_path / "file" / "data")
    with pytest.raises(BrokerRefused, match="--journal off"):
        LocalBroker(other, "millgate", 5.0).setup()


def test_a_start_waits_for_a_brokerd_that_is_about_to_end(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.publish([a_message(id=f"m{n}", body=b"x" * 2000) for n in range(1000)])
    pid = daemon.pid
    for _ in range(3):
        os.kill(pid, signal.SIGTERM)
        broker.setup()
        while daemon.pid == pid:
            broker.setup()
        pid = daemon.pid
    assert broker.stats().topics["default"].waiting == 1000


def test_queues_that_share_a_brokerd_do_not_meet(daemon: Daemon) -> None:
    daemon.start()
    one: Broker = daemon.client("one")
    two: Broker = daemon.client("two")
    one.publish([a_message(id="same")])
    assert not two.publish([a_message(id="same", topic="other")])[0].duplicate
    assert list(one.stats().topics) == ["default"]
    assert list(two.stats().topics) == ["other"]
    one.close()
    two.close()


def test_the_socket_is_open_to_its_user_alone(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.path.stat().st_mode & 0o177 == 0
    assert daemon.address.key_file.stat().st_mode & 0o177 == 0
