"""A session over a link that does what the test says."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from millgate.brokers.served import frames
from millgate.brokers.served.session import Session
from millgate.brokers.served.waker import Waker
from millgate.clock import SystemClock
from support.clock import FakeClock


class Scripted:
    """A link: answers that are there, and nothing after them."""

    def __init__(self) -> None:
        self.answers: deque[list[Any]] = deque()
        self.sent: list[list[Any]] = []
        self.ends: list[tuple[float, float]] = []  # of all, and of silence

    def send(self, payload: bytes, end: float) -> None:
        del end
        self.sent.append(frames.unpack(payload))

    def receive(self, end: float, silence: float) -> bytes:
        self.ends.append((end, silence))
        assert self.answers, "nothing has come: this would block"
        return frames.pack(self.answers.popleft())

    def readable(self, other: int, end: float) -> bool:
        del other, end
        return bool(self.answers)

    def close(self) -> None:
        """Nothing to free."""


def a_session(link: Scripted) -> Session:
    return Session(lambda _caller, _end: link, "queue", 10.0, SystemClock())


def test_a_late_answer_to_another_call_keeps_no_wait_from_being_interrupted() -> None:
    link = Scripted()
    link.answers.append([99, None])  # to a wait that was interrupted before
    session = a_session(link)
    session.waker.ring()
    assert session.park("wait_for_work", [], timeout=60.0, waker=session.waker) in (None, True)
    assert not link.answers
    session.close()


def test_the_answer_behind_a_late_one_is_found() -> None:
    link = Scripted()
    link.answers += [[99, "late"], [1, "mine"]]
    session = a_session(link)
    assert session.call("stats") == "mine"
    link.answers += [[1, "late"], [2, True]]
    assert session.park("wait_for_work", [], timeout=60.0, waker=Waker()) is True
    session.close()


def test_an_answer_of_which_more_and_more_comes_is_waited_for_until_the_calls_deadline() -> None:
    link, clock = Scripted(), FakeClock()
    session = Session(lambda _caller, _end: link, "queue", 10.0, clock)
    link.answers.append([1, "mine"])
    session.call("stats")
    ((end, silence),) = link.ends
    assert end == clock.monotonic() + 10.0
    assert 3.0 < silence < 4.0
    session.close()


def test_a_ring_from_another_thread_ends_a_wait() -> None:
    waker = Waker()
    threading.Timer(0.05, waker.ring).start()
    assert waker.wait(10.0)
    assert waker.rung()
