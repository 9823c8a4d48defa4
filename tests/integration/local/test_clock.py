"""The machine's clock is set, as where it was wrong until the network came: what was sent for a moment comes then."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from millgate.brokers.base import State
from millgate.brokers.local.broker import LocalBroker
from support.builders import a_message, a_topic
from support.local import Daemon
from support.steppable import Steppable
from support.wait import eventually
from support.working import Hand

DAY = 86_400


def state(broker: LocalBroker, name: str) -> State:
    broker.pause("other", False)  # what changes something is never answered from an old moment
    return broker.states([name])[0].state


def test_named_times_follow_a_clock_that_is_set_and_leases_do_not(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Steppable(Steppable.build(tmp_path), tmp_path / "offset")
    clock.step(-DAY)
    for name, value in clock.environ.items():
        monkeypatch.setenv(name, value)
    daemon.start()
    broker = daemon.client()
    broker.configure([a_topic(lease=60.0)])
    broker.publish([a_message(id="held"), a_message(id="named", at=time.time() - 3600.0)])
    broker.publish([a_message(id="waits", delay=3600.0)])
    hand = Hand(broker)
    claim = hand.one()
    assert state(broker, "named") is State.DELAYED
    clock.step(0)
    eventually(lambda: state(broker, "named") is State.WAITING)
    assert state(broker, "waits") is State.DELAYED
    hand.beat(claim)
    broker.publish([a_message(id="tomorrow", at=time.time() + 3600.0)])
    daemon.end()
    clock.step(-DAY)  # between two lives
    daemon.start()
    broker.publish([a_message(id="today", at=time.time() - DAY + 3600.0)])
    assert state(broker, "today") is State.DELAYED
    clock.step(0)
    eventually(lambda: state(broker, "today") is State.WAITING)
    assert state(broker, "tomorrow") is State.DELAYED
    hand.ack(claim)
