"""Schedules: each slot fires once in the whole fleet, and its messages come with it or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker
from millgate.errors import InvalidMessage
from support.builders import a_message
from support.working import Hand

SLOT = 1_800_000_000.0


def test_a_slot_fires_once(broker: Broker, hand: Hand) -> None:
    assert broker.fire("nightly", SLOT, [a_message(id="n1")]) is True
    assert broker.fire("nightly", SLOT, [a_message(id="n1-again")]) is False
    assert hand.run_all() == ["n1"]


def test_a_later_slot_fires_and_an_earlier_one_does_not(broker: Broker, hand: Hand) -> None:
    assert broker.fire("nightly", SLOT, [a_message(id="n1")]) is True
    assert broker.fire("nightly", SLOT + 60, [a_message(id="n2")]) is True
    assert broker.fire("nightly", SLOT + 30, [a_message(id="late")]) is False
    assert hand.run_all() == ["n1", "n2"]


def test_schedules_are_independent(broker: Broker) -> None:
    assert broker.fire("a", SLOT, [a_message()])
    assert broker.fire("b", SLOT, [a_message()])
    assert broker.fire("", SLOT, [a_message()])
    assert not broker.fire("", SLOT, [a_message()])
    assert broker.schedules() == {"a": SLOT, "b": SLOT, "": SLOT}


def test_a_slot_may_fire_nothing(broker: Broker) -> None:
    assert broker.fire("skipped", SLOT, []) is True
    assert broker.fire("skipped", SLOT, [a_message()]) is False
    assert broker.schedules() == {"skipped": SLOT}


def test_a_slot_whose_message_is_refused_has_not_fired(broker: Broker) -> None:
    with pytest.raises(InvalidMessage):
        broker.fire("nightly", SLOT, [a_message(id="no good")])
    assert broker.schedules() == {}
    assert broker.fire("nightly", SLOT, [a_message()]) is True


def test_a_slot_fires_although_its_message_is_there_already(broker: Broker, hand: Hand) -> None:
    assert broker.fire("nightly", SLOT, [a_message(id="n1", unique="nightly")]) is True
    assert broker.fire("nightly", SLOT + 60, [a_message(id="n2", unique="nightly")]) is True
    assert broker.schedules() == {"nightly": SLOT + 60}
    assert hand.run_all() == ["n1"]
    assert broker.fire("nightly", SLOT + 120, [a_message(id="n3", unique="nightly")]) is True
    assert hand.run_all() == ["n3"]


def test_fractions_of_a_second_are_kept(broker: Broker) -> None:
    broker.fire("fine", SLOT + 0.25, [])
    assert broker.schedules()["fine"] == pytest.approx(SLOT + 0.25, abs=1e-4)


def test_of_many_racing_schedulers_one_fires_each_slot(
    make_broker: Callable[[], Broker], hand: Hand
) -> None:
    fired: list[int] = []

    def race(client: Broker) -> None:
        fired.extend(
            n for n in range(20) if client.fire("tick", SLOT + n, [a_message(id=f"tick-{n}")])
        )

    threads = [threading.Thread(target=race, args=(make_broker(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fired) == len(set(fired))
    assert sorted(hand.run_all()) == sorted(f"tick-{n}" for n in fired)
    assert 19 in fired
