"""The registry: who works, seen when, holding how much; silent workers are forgotten."""

from __future__ import annotations

from millgate.brokers.base import Broker
from millgate.fleet import Beat, WorkerState
from support.builders import a_worker, an_info, some_messages
from support.working import Hand, at_work, has_still


def test_a_registered_worker_has_a_row(broker: Broker) -> None:
    worker = a_worker("w-1")
    info = an_info(slots=4, host="node", pid=7, version="1.2", topics="a*,b")
    broker.register(worker, info)
    (row,) = broker.stats().workers
    assert (row.name, row.incarnation) == ("w-1", worker.incarnation)
    assert (row.info, row.state, row.leased, row.fence_left) == (info, WorkerState.ACTIVE, 0, None)
    assert 0 <= row.seen < 5


def test_registering_twice_is_registering_once_and_takes_the_newer_info(broker: Broker) -> None:
    worker = a_worker()
    broker.register(worker, an_info(slots=1))
    broker.register(worker, an_info(slots=2))
    (row,) = broker.stats().workers
    assert row.info.slots == 2


def test_the_newest_start_has_the_name(broker: Broker) -> None:
    Hand(broker, "w")
    newer = Hand(broker, "w")
    (row,) = broker.stats().workers
    assert row.incarnation == newer.worker.incarnation


def test_a_start_that_has_its_name_again_has_what_it_holds_still(broker: Broker) -> None:
    hand, claim = at_work(broker)
    Hand(broker, hand.worker.name)
    has_still(hand, claim)


def test_an_unregistered_worker_has_no_row(broker: Broker, hand: Hand) -> None:
    broker.unregister(hand.worker)
    assert broker.stats().workers == ()
    broker.unregister(hand.worker)


def test_an_older_start_cannot_unregister_the_newer_one(broker: Broker, hand: Hand) -> None:
    Hand(broker, hand.worker.name)
    broker.unregister(hand.worker)
    assert len(broker.stats().workers) == 1


def test_the_beat_is_shown_and_leased_is_counted_by_the_broker(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(3))
    claims = hand.claim(3)
    beat = Beat(
        busy=2,
        buffered=1,
        revision=5,
        rss=123456789,
        oldest=1.5,
        draining=True,
        detail={"x": [1, "é"]},
    )
    broker.extend(hand.worker, [claim.ref for claim in claims], beat)
    (row,) = broker.stats().workers
    assert (row.beat, row.leased) == (beat, 3)
    hand.ack(claims[0])
    assert broker.stats().workers[0].leased == 2


def test_several_workers_are_listed_by_name(broker: Broker) -> None:
    for name in ("w-b", "w-c", "w-a"):
        Hand(broker, name)
    assert [row.name for row in broker.stats().workers] == ["w-a", "w-b", "w-c"]
