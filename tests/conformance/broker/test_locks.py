"""Locks: one holder at a time, an end of their own, a number that grows with every grant."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf, nan

import pytest

from millgate.brokers.base import Broker, Lock
from millgate.errors import InvalidInput
from support.builders import a_message
from support.working import Hand

PassTime = Callable[[float], None]


def test_one_holder_at_a_time(broker: Broker) -> None:
    mine = broker.acquire("report", "a", 60)
    assert mine is not None
    assert (mine.name, mine.holder) == ("report", "a")
    assert broker.acquire("report", "b", 60) is None
    assert broker.acquire("other", "b", 60) is not None


def test_acquiring_again_renews_and_keeps_the_number(broker: Broker, pass_time: PassTime) -> None:
    first = broker.acquire("report", "a", 0.6)
    pass_time(0.4)
    again = broker.acquire("report", "a", 0.6)
    pass_time(0.4)
    assert first is not None
    assert again is not None
    assert again.fence == first.fence
    assert broker.acquire("report", "b", 60) is None


def test_the_number_grows_with_every_new_grant(broker: Broker) -> None:
    fences = []
    for holder in ("a", "b", "a"):
        lock = broker.acquire("report", holder, 60)
        assert lock is not None
        fences.append(lock.fence)
        assert broker.release("report", holder, lock.fence)
    assert fences == sorted(set(fences))


def test_a_lock_ends_by_itself_and_the_late_holder_can_do_nothing(
    broker: Broker, pass_time: PassTime
) -> None:
    old = broker.acquire("report", "a", 0.3)
    pass_time(0.4)
    new = broker.acquire("report", "b", 60)
    assert old is not None
    assert new is not None
    assert new.fence > old.fence
    assert broker.renew("report", "a", old.fence, 60) is False
    assert broker.release("report", "a", old.fence) is False
    assert [lock.holder for lock in broker.locks()] == ["b"]


def test_an_ended_lock_is_not_renewed_even_if_nobody_took_it(
    broker: Broker, pass_time: PassTime
) -> None:
    old = broker.acquire("report", "a", 0.3)
    assert old is not None
    pass_time(0.4)
    assert broker.renew("report", "a", old.fence, 60) is False
    assert broker.locks() == []


def test_renewing_keeps_it(broker: Broker, pass_time: PassTime) -> None:
    lock = broker.acquire("report", "a", 0.5)
    assert lock is not None
    for _ in range(3):
        pass_time(0.3)
        assert broker.renew("report", "a", lock.fence, 0.5) is True
    assert broker.acquire("report", "b", 60) is None


def test_the_same_holder_with_an_older_number_is_refused(
    broker: Broker, pass_time: PassTime
) -> None:
    old = broker.acquire("report", "a", 0.2)
    pass_time(0.3)
    new = broker.acquire("report", "a", 60)
    assert old is not None
    assert new is not None
    assert broker.renew("report", "a", old.fence, 60) is False
    assert broker.release("report", "a", old.fence) is False
    assert broker.release("report", "a", new.fence) is True


@pytest.mark.parametrize("ttl", [nan, inf, 1e300], ids=str)
def test_a_time_that_no_lock_can_last_is_refused(broker: Broker, ttl: float) -> None:
    with pytest.raises(InvalidInput, match="finite"):
        broker.acquire("l", "h", ttl)
    lock = broker.acquire("l", "h", 60)
    assert lock is not None
    with pytest.raises(InvalidInput, match="finite"):
        broker.renew("l", "h", lock.fence, ttl)
    assert [other.name for other in broker.locks()] == ["l"]


def test_release_by_force(broker: Broker) -> None:
    broker.acquire("report", "a", 60)
    assert broker.release("report") is True
    assert broker.release("report") is False
    assert broker.acquire("report", "b", 60) is not None


def test_release_by_a_stranger_is_refused(broker: Broker) -> None:
    lock = broker.acquire("report", "a", 60)
    assert lock is not None
    assert broker.release("report", "b") is False
    assert broker.release("report", "b", lock.fence) is False
    assert broker.release("report", "a") is True


def test_an_empty_holder_is_no_word_for_any(broker: Broker) -> None:
    lock = broker.acquire("l", "me", 60)
    assert lock is not None
    assert not broker.release("l", "")
    assert not broker.renew("l", "", lock.fence, 60)
    assert broker.release("l", "me")


def test_locks_are_listed_by_name_with_what_is_left(broker: Broker) -> None:
    for name in ("c", "a", "b"):
        broker.acquire(name, "h", 60)
    locks = broker.locks()
    assert [lock.name for lock in locks] == ["a", "b", "c"]
    assert all(isinstance(lock, Lock) and 50 < lock.left <= 60.001 for lock in locks)


def test_a_lock_and_a_message_of_the_same_name_are_different_things(
    broker: Broker, hand: Hand
) -> None:
    broker.publish([a_message(id="same", key="same", unique="same")])
    assert broker.acquire("same", "a", 60) is not None
    assert len(hand.claim()) == 1


def test_of_many_racing_holders_one_wins(make_broker: Callable[[], Broker]) -> None:
    won: list[tuple[int, int]] = []

    def race(number: int, client: Broker) -> None:
        for n in range(20):
            lock = client.acquire(f"lock{n}", f"holder{number}", 60)
            if lock is not None:
                won.append((n, lock.fence))

    threads = [threading.Thread(target=race, args=(number, make_broker())) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for n, _ in won) == list(range(20))
    assert len({fence for _, fence in won}) == 20
