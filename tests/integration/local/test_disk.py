"""The journal's disk: full and free again, bounded however long the history, damaged, or of another version."""

from __future__ import annotations

import os
import resource
import signal
import struct
import time
from pathlib import Path

import pytest

from millgate.brokers.base import Ask, State
from millgate.errors import BrokerRefused, BrokerUnavailable, SchemaTooNew
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info, some_messages
from support.local import Daemon
from support.wait import eventually


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_full_disk_is_an_error_that_stores_nothing_and_goes_on_when_there_is_room(
    daemon: Daemon,
) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    broker.publish([a_message(id="before"), a_message(id="held")])
    claim = broker.claim(worker, Ask()).claims[0]
    pid = daemon.pid
    journal = next(daemon.address.data.glob("journal-*"))
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (journal.stat().st_size + 100, hard))
    for _ in range(3):
        with pytest.raises(BrokerUnavailable, match=r"free space there.*Nothing of this call"):
            broker.publish([a_message(id="full", body=b"x" * 1000)])
        with pytest.raises(BrokerUnavailable, match="Nothing of this call"):
            broker.claim(worker, Ask(), [Ack(claim.ref, b"r" * 500)])
    assert broker.states(["full"])[0].state is State.UNKNOWN
    assert broker.states(["before"])[0].state is State.RUNNING
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    broker.publish([a_message(id="after")])
    assert broker.claim(worker, Ask(n=0), [Ack(claim.ref, b"r")]).stale == ()

    daemon.end(signal.SIGKILL)
    daemon.start()
    kept = broker.states(["before", "held", "full", "after"])
    assert [state.state for state in kept] == [
        State.SUCCEEDED,
        State.WAITING,
        State.UNKNOWN,
        State.WAITING,
    ]


def test_the_journal_does_not_grow_with_history_and_snapshots_hold_up_nobody(
    daemon: Daemon,
) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    longest, largest, written = 0.0, 0, 0
    acks: list[Ack] = []
    for _ in range(40):
        before = time.monotonic()
        messages = some_messages(20, body=os.urandom(100_000))
        written += 20 * 100_000
        broker.publish(messages)
        claimed = broker.claim(worker, Ask(n=20), acks)
        acks = [Ack(claim.ref) for claim in claimed.claims]
        longest = max(longest, time.monotonic() - before)
        largest = max(largest, size(daemon.address.data))
    assert written > 75_000_000
    assert largest < 50_000_000
    assert longest < 10
    eventually(lambda: len(list(daemon.address.data.glob("snapshot-*"))) == 1)
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert broker.claim(worker, Ask(n=0), acks).stale == ()
    assert broker.stats().topics["default"].completed == 800


def test_a_tail_torn_by_a_kill_is_cut_off_and_all_before_it_is_kept(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.publish([a_message(id="whole")])
    daemon.end(signal.SIGKILL)
    journal = max(daemon.address.data.glob("journal-*"))
    for torn in (b"\0", struct.pack(">II", 500, 7) + b"x" * 20, os.urandom(300)):
        with journal.open("ab") as file:
            file.write(torn)
        daemon.start()
        assert broker.states(["whole"])[0].state is State.WAITING
        daemon.end(signal.SIGKILL)
        journal = max(daemon.address.data.glob("journal-*"))
    assert "cut" in Path(f"{daemon.path}.log").read_text()


def test_damage_in_the_middle_is_refused_and_says_where(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    broker.publish([a_message(id="m")])
    daemon.end(signal.SIGTERM)
    snapshot = next(daemon.address.data.glob("snapshot-*"))
    content = bytearray(snapshot.read_bytes())
    content[-5] ^= 1
    snapshot.write_bytes(content)
    with pytest.raises(BrokerRefused, match="checksum"):
        broker.setup()


@pytest.mark.parametrize("kind", ["snapshot", "journal"])
def test_files_of_a_newer_version_are_refused_and_left_alone(daemon: Daemon, kind: str) -> None:
    daemon.start()
    daemon.client().publish([a_message(id="m")])
    daemon.end(signal.SIGTERM)
    path = next(daemon.address.data.glob(f"{kind}-*"))
    content = bytearray(path.read_bytes())
    content[8:10] = struct.pack(">H", 99)
    path.write_bytes(content)
    with pytest.raises(SchemaTooNew, match="format 99"):
        daemon.client().setup()
    assert path.read_bytes() == content


def test_kills_while_it_writes_lose_nothing_acknowledged(daemon: Daemon) -> None:
    """Kills at arbitrary moments of start, write, rotation and snapshot."""
    sent: list[str] = []
    for turn in range(20):
        daemon.start()
        broker = daemon.client(deadline=0.2)
        pid = daemon.pid
        child = os.fork()
        if not child:
            time.sleep(0.01 * (turn % 7))
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        try:
            while True:
                ids = [f"t{turn}-{len(sent)}-{at}" for at in range(3)]
                broker.publish([a_message(id=id_) for id_ in ids])
                sent += ids
        except BrokerUnavailable:
            os.waitpid(child, 0)
    daemon.start()
    states = daemon.client().states(sent)
    assert [state.id for state in states if state.state is not State.WAITING] == []
