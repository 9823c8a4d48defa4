"""The io thread's loop: what wakes it, and that nothing else does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from millgate.runtime.reactor import Reactor


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    made = Reactor()
    yield made
    made.close()


def test_what_is_posted_is_done_in_order_in_the_loops_thread(reactor: Reactor) -> None:
    done: list[tuple[int, int]] = []

    def post() -> None:
        for number in range(100):
            reactor.post(lambda number: done.append((number, threading.get_ident())), number)

    thread = threading.Thread(target=post)
    thread.start()
    while len(done) < 100:
        reactor.turn(10.0)
    thread.join()
    assert done == [(number, threading.get_ident()) for number in range(100)]


def test_each_ring_ends_one_wait_and_none_is_heard_twice(reactor: Reactor) -> None:
    reactor.turn(0.0)
    for _ in range(50):  # nobody takes the rings out of the bell
        reactor.wake()
        began = time.monotonic()
        reactor.turn(10.0)
        assert time.monotonic() - began < 5.0
    began = time.monotonic()
    reactor.turn(0.05)
    assert time.monotonic() - began >= 0.04


def test_a_ring_while_a_turn_is_at_work_ends_the_next_wait(reactor: Reactor) -> None:
    reactor.post(reactor.wake)
    reactor.turn(10.0)
    began = time.monotonic()
    reactor.turn(10.0)
    assert time.monotonic() - began < 5.0


def test_what_comes_first_is_heard_first(reactor: Reactor) -> None:
    heard: list[str] = []
    pipes = [os.pipe() for _ in range(2)]
    reactor.add(pipes[0][0], lambda _events: heard.append("result"))
    reactor.add(pipes[1][0], lambda _events: heard.append("output"), first=True)
    for _, writing in pipes:
        os.write(writing, b"x")
    reactor.turn(1.0)
    assert heard == ["output", "result"]
    for reading, writing in pipes:
        reactor.remove(reading)
        os.close(reading)
        os.close(writing)
