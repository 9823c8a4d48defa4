"""unique: one at a time for as long as it waits or runs, or one in a window of time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from millgate.brokers.base import Broker
from millgate.message import Receipt
from support.builders import a_message
from support.working import Hand, ids

PassTime = Callable[[float], None]


def test_a_taken_text_is_answered_with_its_holder(broker: Broker, hand: Hand) -> None:
    first, second = a_message(unique="u"), a_message(unique="u")
    broker.publish([first])
    assert broker.publish([second]) == [Receipt(first.id, duplicate=True)]
    assert hand.run_all() == [first.id]


def test_the_first_of_a_batch_holds_it(broker: Broker, hand: Hand) -> None:
    first, second, other = a_message(unique="u"), a_message(unique="u"), a_message(unique="v")
    receipts = broker.publish([first, second, other])
    assert receipts == [Receipt(first.id), Receipt(first.id, duplicate=True), Receipt(other.id)]


def test_a_window_without_length_lasts_for_its_batch(broker: Broker) -> None:
    first, second = a_message(unique="u", unique_for=0.0), a_message(unique="u", unique_for=0.0)
    receipts = broker.publish([first, second])
    assert receipts == [Receipt(first.id), Receipt(first.id, duplicate=True)]


def test_the_text_is_held_through_delay_run_and_retry(broker: Broker, hand: Hand) -> None:
    first = a_message(unique="u", delay=0.0)
    broker.publish([first])
    claim = hand.one()
    assert broker.publish([a_message(unique="u")])[0].duplicate
    hand.fail(claim, delay=60)
    assert broker.publish([a_message(unique="u")])[0] == Receipt(first.id, duplicate=True)


def test_the_text_is_free_once_the_message_has_ended(broker: Broker, hand: Hand) -> None:
    ends: list[Callable[[], object]] = [
        lambda: hand.ack(hand.one()),
        lambda: hand.bury(hand.one()),
        lambda: broker.cancel([last.id]),
        lambda: broker.purge("default"),
    ]
    for end in ends:
        last = a_message(unique="u")
        assert broker.publish([last]) == [Receipt(last.id)]
        end()
    assert not broker.publish([a_message(unique="u")])[0].duplicate


def test_a_window_holds_the_text_beyond_the_end_and_not_longer(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    first = a_message(unique="u", unique_for=0.8)
    broker.publish([first])
    hand.run_all()
    assert broker.publish([a_message(unique="u")]) == [Receipt(first.id, duplicate=True)]
    pass_time(0.9)
    assert not broker.publish([a_message(unique="u", unique_for=0.8)])[0].duplicate


def test_a_window_that_has_passed_frees_the_text_of_a_message_that_still_waits(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    first, second = a_message(unique="u", unique_for=0.3), a_message(unique="u", unique_for=60)
    broker.publish([first])
    pass_time(0.4)
    assert broker.publish([second]) == [Receipt(second.id)]
    hand.run_all()
    assert broker.publish([a_message(unique="u")]) == [Receipt(second.id, duplicate=True)]


def test_a_replayed_holder_holds_its_text_again(broker: Broker, hand: Hand) -> None:
    broker.publish([first := a_message(unique="u")])
    hand.bury(hand.one())
    broker.replay([first.id])
    assert broker.publish([a_message(unique="u")]) == [Receipt(first.id, duplicate=True)]
    assert hand.run_all() == [first.id]


def test_a_text_that_was_taken_meanwhile_does_not_stop_a_replay(broker: Broker, hand: Hand) -> None:
    broker.publish([first := a_message(unique="u")])
    hand.bury(hand.one())
    broker.publish([second := a_message(unique="u")])
    assert broker.replay([first.id]) == [first.id]
    assert broker.publish([a_message(unique="u")]) == [Receipt(second.id, duplicate=True)]
    assert sorted(hand.run_all()) == sorted([first.id, second.id])


def test_the_retry_of_a_holder_does_not_collide_with_itself(broker: Broker, hand: Hand) -> None:
    first = a_message(unique="u")
    broker.publish([first])
    hand.fail(hand.one())
    assert ids(hand.claim()) == [first.id]


def test_of_many_racing_publishers_one_wins_and_all_are_told_its_id(
    make_broker: Callable[[], Broker], hand: Hand
) -> None:
    answers: list[list[Receipt]] = []

    def race(client: Broker) -> None:
        answers.append([client.publish([a_message(unique=f"u{n}")])[0] for n in range(20)])

    threads = [threading.Thread(target=race, args=(make_broker(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for same in zip(*answers, strict=True):
        assert len({receipt.id for receipt in same}) == 1
        assert [receipt.duplicate for receipt in same].count(False) == 1
    assert len(hand.run_all()) == 20
