"""Waiting under a lock: woken by the ring or by time, and the lock is held again either way."""

from __future__ import annotations

import threading

from millgate.runtime.bell import Bell
from support.wait import eventually


def waiters(bell: Bell, count: int, seconds: float) -> tuple[list[threading.Thread], list[int]]:
    woken: list[int] = []

    def wait(number: int) -> None:
        with bell.lock:
            bell.wait(seconds)
            assert bell.lock.locked()
            woken.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads, woken


def test_a_ring_wakes_all_that_wait() -> None:
    bell = Bell()
    threads, woken = waiters(bell, 5, 60.0)
    eventually(lambda: len(bell._waiting) == 5)
    with bell.lock:
        bell.ring()
        assert woken == []  # they need the lock first
    for thread in threads:
        thread.join(10.0)
    assert sorted(woken) == [0, 1, 2, 3, 4]
    assert not bell.lock.locked()


def test_without_a_ring_a_wait_ends_in_time_and_leaves_nothing() -> None:
    bell = Bell()
    threads, woken = waiters(bell, 2, 0.01)
    for thread in threads:
        thread.join(10.0)
    assert sorted(woken) == [0, 1]
    assert bell._waiting == []
    with bell.lock:
        bell.ring()
