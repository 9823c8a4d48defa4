"""brokerd is killed under load: what was acknowledged is there, what was settled stays settled."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from millgate.brokers.base import Ask, State
from millgate.errors import BrokerUnavailable
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info
from support.local import Daemon

FORK = multiprocessing.get_context("fork")


def produce(daemon: Daemon, name: int, stop: Connection, ledger: Connection) -> None:
    """Publish until told to stop; report the ids whose publication was acknowledged."""
    broker = daemon.client(deadline=20)
    sent: list[str] = []
    while not stop.poll():
        ids = [f"p{name}-{len(sent) + at}" for at in range(5)]
        broker.publish([a_message(id=id_) for id_ in ids])
        sent += ids
    ledger.send(sent)
    broker.close()


def consume(daemon: Daemon, name: int, stop: Connection, ledger: Connection) -> None:
    """Claim and settle until told to stop and nothing is left; report every claim and every acknowledged settlement."""
    broker = daemon.client(deadline=20)
    worker = a_worker(f"w{name}")
    broker.register(worker, an_info())
    claimed: list[str] = []
    settled: list[str] = []
    stale: list[str] = []
    held: tuple[Ack, ...] = ()
    while held or not stop.poll():
        answer = broker.claim(worker, Ask(n=0 if stop.poll() else 7), held)
        stale += answer.stale
        settled += [ack.claim.id for ack in held]
        claimed += [claim.id for claim in answer.claims]
        held = tuple(Ack(claim.ref, b"1") for claim in answer.claims)
        if not held:
            broker.wait_for_work(Ask().subscription, 0.05)
    ledger.send((claimed, settled, stale))
    broker.close()


def test_nothing_acknowledged_is_lost_or_given_twice_when_it_is_killed_again_and_again(
    daemon: Daemon,
) -> None:
    daemon.start()
    parts: list[tuple[Any, Any, Connection, Connection]] = []
    for role in (produce, produce, consume, consume, consume):
        stopped, stop = FORK.Pipe(duplex=False)
        ledger, report = FORK.Pipe(duplex=False)
        process = FORK.Process(target=role, args=(daemon, len(parts), stopped, report))
        process.start()
        parts.append((role, process, stop, ledger))
    for _ in range(12):
        time.sleep(0.15)
        daemon.end(signal.SIGKILL)
        daemon.start()
    published = [part for part in parts if part[0] is produce]
    consumers = [part for part in parts if part[0] is consume]
    sent: list[str] = []
    for _, process, stop, ledger in published:
        stop.send(True)
        sent += ledger.recv()
        process.join()
    claimed: list[str] = []
    settled: list[str] = []
    for _, process, stop, ledger in consumers:
        stop.send(True)
        some, done, stale = ledger.recv()
        assert stale == []
        claimed += some
        settled += done
        process.join()
    assert len(claimed) == len(set(claimed)), "a message was given to two workers"
    assert set(settled) <= set(sent)

    broker = daemon.client()
    states = {state.id: state.state for state in broker.states(sent)}
    left = {id_ for id_, state in states.items() if state is State.WAITING}
    assert {id_ for id_, state in states.items() if state is State.SUCCEEDED} == set(settled)
    assert left | set(settled) == set(sent), "an acknowledged publication is gone"
    assert len(sent) > 100
    broker.close()


def test_a_call_goes_on_by_itself_when_brokerd_comes_back_within_its_deadline(
    daemon: Daemon,
) -> None:
    daemon.start()
    broker = daemon.client(deadline=10)
    broker.publish([a_message(id="before")])
    daemon.end(signal.SIGKILL)
    pid = os.fork()
    if not pid:
        time.sleep(0.5)
        daemon.start()
        os._exit(0)
    broker.publish([a_message(id="during")])
    os.waitpid(pid, 0)
    assert [state.state for state in broker.states(["before", "during"])] == [State.WAITING] * 2
    broker.close()


def test_without_brokerd_a_call_ends_at_its_deadline_with_an_error(daemon: Daemon) -> None:
    broker = daemon.client(deadline=0.5)
    before = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=r"b\.sock"):
        broker.publish([a_message()])
    assert time.monotonic() - before < 5
    broker.close()


def test_a_stopped_brokerd_leaves_a_snapshot_and_an_empty_journal(daemon: Daemon) -> None:
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    broker.publish([a_message(id="kept", priority=9), a_message(id="waits")])
    claim = broker.claim(worker, Ask()).claims[0]
    daemon.end()
    folder = daemon.address.data
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == [
        "journal", "lock", "snapshot",
    ]  # fmt: skip
    assert next(folder.glob("journal-*")).stat().st_size == 16
    daemon.start()
    assert broker.claim(worker, Ask(n=0), [Ack(claim.ref)]).stale == ()
    assert broker.states(["kept"])[0].state is State.SUCCEEDED
    assert broker.claim(worker, Ask()).claims[0].id == "waits"
    broker.close()


def test_with_the_journal_off_nothing_is_kept_and_old_tokens_are_stale(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "&journal=off")
    daemon.start()
    broker = daemon.client()
    worker = a_worker()
    broker.register(worker, an_info())
    broker.publish([a_message(id="m")])
    claim = broker.claim(worker, Ask()).claims[0]
    assert broker.server().detail["journal"] is False
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert broker.states(["m"])[0].state is State.UNKNOWN
    broker.publish([a_message(id="m")])
    broker.register(worker, an_info())
    assert broker.claim(worker, Ask()).claims[0].id == "m"
    assert broker.settle([Ack(claim.ref)]) == ("m",)
    assert not daemon.address.data.exists()
    broker.close()
    daemon.end()
