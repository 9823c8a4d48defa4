"""The queue of keys, with a clock that is turned by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from millgate.clock import SystemClock
from millgate_operator.errors import RetryLater
from millgate_operator.workqueue import LAST, WorkQueue
from support.clock import FakeClock
from support.wait import eventually


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue(clock, Random(1))


def test_a_key_that_is_wanted_twice_is_worked_on_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    assert queue.take() == "a"
    assert queue.take() is None


def test_a_key_in_work_waits_for_its_turn_and_others_do_not(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    queue.add("b")
    assert queue.take() == "b"
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"


def test_what_is_wanted_later_comes_later_and_in_order(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add("late", 10)
    queue.add("soon", 5)
    assert queue.take() is None
    assert queue.waiting() == 5
    clock.advance(5)
    assert queue.take() == "soon"
    assert queue.take() is None
    clock.advance(5)
    assert queue.take() == "late"


def test_the_sooner_wish_wins_and_leaves_nothing_behind(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add("a", 60)
    queue.add("a", 1)
    queue.add("a", 30)
    clock.advance(1)
    assert queue.take() == "a"
    queue.done("a")
    clock.advance(100)
    assert queue.take() is None
    assert len(queue) == 0


def test_failures_come_back_later_and_later_up_to_a_bound(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    queue.add("a")
    waits = []
    for _ in range(15):
        assert queue.take() == "a"
        queue.done("a", failed=True)
        wait = queue.waiting()
        assert wait is not None
        waits.append(wait)
        clock.advance(wait)
    assert 0.8 <= waits[0] <= 1.2
    assert 1.6 <= waits[1] <= 2.4
    assert all(wait <= LAST * 1.2 for wait in waits)
    assert waits[-1] > LAST * 0.7


def test_success_forgets_earlier_failures(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    for _ in range(5):
        queue.take()
        queue.done("a", failed=True)
        clock.advance(60)
    queue.take()
    queue.done("a")
    queue.add("a")
    queue.take()
    queue.done("a", failed=True)
    wait = queue.waiting()
    assert wait is not None
    assert wait <= 1.2


def test_a_key_can_ask_to_be_seen_again(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    queue.take()
    queue.done("a", again=30)
    assert queue.waiting() == 30


def test_news_come_at_once_although_a_retry_waits(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    queue.take()
    queue.done("a", failed=True)
    queue.add("a")
    assert queue.take() == "a"


def test_what_is_forgotten_does_not_come_back(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add("a", 5)
    queue.forget("a")
    clock.advance(10)
    assert queue.take() is None


def test_a_poisonous_key_does_not_stop_the_others(queue: WorkQueue[str]) -> None:
    worked: list[str] = []
    finished = threading.Event()

    def work(key: str) -> float | None:
        worked.append(key)
        if key == "poison":
            raise ValueError("boom")
        if key == "later":
            raise RetryLater("Busy", "not now")
        finished.set()
        return None

    for key in ("poison", "later", "good"):
        queue.add(key)
    thread = threading.Thread(target=queue.run, args=(work,))
    thread.start()
    assert finished.wait(5)
    queue.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert worked == ["poison", "later", "good"]
    assert len(queue) == 2, "both come back"


def test_never_are_two_at_work_on_one_key() -> None:
    queue: WorkQueue[int] = WorkQueue(SystemClock())
    busy: set[int] = set()
    clashes: list[int] = []
    count = threading.Semaphore(0)
    lock = threading.Lock()

    def work(key: int) -> float | None:
        with lock:
            if key in busy:
                clashes.append(key)
            busy.add(key)
        with lock:
            busy.discard(key)
        count.release()
        return None

    threads = [threading.Thread(target=queue.run, args=(work,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        queue.add(number % 5)
    for _ in range(5):
        assert count.acquire(timeout=5)
    queue.stop()
    for thread in threads:
        thread.join(5)
    assert clashes == []


@contextmanager
def running(
    queue: WorkQueue[str], count: int, work: Callable[[str], float | None]
) -> Iterator[None]:
    threads = [threading.Thread(target=queue.run, args=(work,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        queue.stop()
        for thread in threads:
            thread.join(5)
        assert not any(thread.is_alive() for thread in threads)


def test_what_is_due_at_once_is_worked_on_at_once_by_as_many_as_there_are() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock())
    together = threading.Barrier(4, timeout=5)

    def work(_: str) -> float | None:
        together.wait()
        return None

    with running(queue, 4, work):
        queue.add("far", 600)
        for round_ in range(3):
            for key in "abcd":
                queue.add(key)
            eventually(lambda round_=round_: len(queue) == 1 and together.n_waiting == 0)
    assert not together.broken


def test_a_wish_is_met_in_time_while_another_waits_and_a_third_is_in_work() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock())
    go_on, met = threading.Event(), threading.Event()

    def work(key: str) -> float | None:
        if key == "slow":
            go_on.wait(10)
        if key == "soon":
            met.set()
        return None

    with running(queue, 2, work):
        queue.add("slow")
        queue.add("far", 600)
        eventually(lambda: len(queue) == 1)
        queue.add("slow")  # due, and in work: nothing that anybody could wait for
        queue.add("soon", 0.05)
        assert met.wait(5)
        go_on.set()
        eventually(lambda: len(queue) == 1)


def test_one_thread_wakes_for_one_key_however_many_there_are() -> None:
    class Counting(SystemClock):
        asked = 0

        def monotonic(self) -> float:
            self.asked += 1
            return super().monotonic()

    clock = Counting()
    queue: WorkQueue[str] = WorkQueue(clock)
    done = threading.Semaphore(0)

    def work(_: str) -> float | None:
        done.release()
        return None

    with running(queue, 16, work):
        before = clock.asked
        for number in range(50):
            queue.add(str(number), 0.002)
            assert done.acquire(timeout=5)
        asked = clock.asked - before
    assert asked < 50 * 10, f"{asked / 50:.1f} looks at the clock for each key"
