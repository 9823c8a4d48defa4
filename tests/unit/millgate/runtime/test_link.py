"""The child's end of the link: jobs, answers, threads, and signals in the middle of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millgate.errors import BrokerUnavailable, QueueFull, SoftTimeout
from millgate.runtime import wire
from millgate.runtime.lent import Lent
from millgate.runtime.link import Link
from millgate.runtime.table import SHELF, Table
from support.builders import a_message
from support.wait import eventually


class Supervisor:
    """The other end, answering in a thread of its own."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.reader = wire.Reader(end.recv_into)
        self.asked: list[list[Any]] = []

    def send(self, value: Any) -> None:
        self.end.sendall(wire.encode(value))

    def serve(self, answer: Any, times: int) -> threading.Thread:
        def run() -> None:
            done = 0
            while done < times:
                for frame in self.reader.read() or ():
                    self.asked.append(frame)
                    self.send(["answer", frame[1], *answer(frame)])
                    done += 1

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def pair() -> Iterator[tuple[Supervisor, Link]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Supervisor(ours), Link(theirs.fileno(), Table.create(1))


def test_jobs_come_in_order_and_the_end_is_the_end(pair: tuple[Supervisor, Link]) -> None:
    supervisor, link = pair
    supervisor.send(["hello", {"app": "a:b"}])
    supervisor.send(["run", [1]])
    supervisor.send(["run", [2]])
    supervisor.end.shutdown(socket.SHUT_WR)
    assert link.hello() == {"app": "a:b"}
    assert [link.next_jobs(), link.next_jobs(), link.next_jobs()] == [[1], [2], None]


def test_who_is_told_to_end_may_still_ask(pair: tuple[Supervisor, Link]) -> None:
    supervisor, link = pair
    supervisor.send(["run", [1]])
    supervisor.send(["end"])
    assert [link.next_jobs(), link.next_jobs()] == [[1], None]
    supervisor.serve(lambda frame: (True, frame[4][0]), times=1)
    assert link.ask(0, "same", 2) == 2


def test_a_question_is_answered_while_jobs_arrive(pair: tuple[Supervisor, Link]) -> None:
    supervisor, link = pair
    supervisor.send(["run", ["waits"]])
    supervisor.serve(lambda frame: (True, frame[4][0] * 2), times=1)
    assert link.ask(7, "double", 21) == 42
    assert supervisor.asked == [["ask", 1, 7, "double", [21]]]
    assert link.next_jobs() == ["waits"]


def test_many_threads_ask_at_once_and_each_gets_its_own_answer(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    supervisor.serve(lambda frame: (True, frame[4][0]), times=200)
    found: list[tuple[int, int]] = []

    def ask(base: int) -> None:
        found.extend((number, link.ask(0, "same", number)) for number in range(base, base + 20))

    threads = [threading.Thread(target=ask, args=(100 * index,)) for index in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 200
    assert all(asked == answered for asked, answered in found)


def test_the_brokers_error_is_raised_in_the_task(pair: tuple[Supervisor, Link]) -> None:
    supervisor, link = pair
    supervisor.serve(lambda _frame: (False, ["QueueFull", "the queue is full"]), times=1)
    with pytest.raises(QueueFull, match="the queue is full"):
        link.ask(0, "publish")


def test_a_question_ends_when_the_worker_does(pair: tuple[Supervisor, Link]) -> None:
    supervisor, link = pair
    supervisor.end.shutdown(socket.SHUT_WR)
    with pytest.raises(BrokerUnavailable):
        link.ask(0, "publish")


def test_what_a_signal_wants_in_the_middle_of_a_frame_happens_after_it(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    happened: list[int] = []
    link._enter()
    link.deferred = lambda: happened.append(link.critical)
    link.send([1])
    assert happened == []
    link._leave()
    assert happened == [0]
    assert supervisor.reader.read() == [[1]]


class Interrupted:
    """A lock at whose release a soft timeout is raised, once, when its thread is about to read."""

    def __init__(self, link: Link) -> None:
        self._link, self._lock, self.done = link, link._changed.lock, False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._link._reading and not self.done:
            self.done = True
            raise SoftTimeout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


def test_who_is_interrupted_just_before_it_reads_reads_the_next_time(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    link._changed.lock = Interrupted(link)  # type: ignore[assignment]
    with pytest.raises(SoftTimeout):
        link.ask(0, "same", 1)
    supervisor.send(["run", [7]])
    found: list[Any] = []
    link._advance(lambda: bool(found))
    assert link.take_jobs() == [[7]]


def test_the_lent_broker_sends_through_the_supervisor_and_opens_the_real_one_only_for_the_rest(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    opened: list[int] = []

    class Real:
        def stats(self) -> str:
            return "real stats"

    def open_real() -> Any:
        opened.append(1)
        return Real()

    lent = Lent(link, open_real)
    supervisor.serve(lambda _frame: (True, [["m", False]]), times=1)
    [receipt] = lent.publish([a_message(id="m")])
    assert (receipt.id, receipt.duplicate, opened) == ("m", False, [])
    assert lent.stats() == "real stats"
    assert opened == [1]


# --- results that wait for each other ------------------------------------------------------------


def test_results_that_follow_each_other_closely_are_sent_together(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    link.send_soon(["done", 1], now=100.0)  # nothing was sent for long
    link.send_soon(["done", 2], now=100.0001)
    link.send_soon(["done", 3], now=100.0002)
    assert supervisor.reader.read() == [["done", 1]]
    supervisor.end.setblocking(False)
    with pytest.raises(BlockingIOError):
        supervisor.reader.read()
    link.flush()
    assert supervisor.reader.read() == [["done", 2], ["done", 3]]


def test_a_result_waits_half_a_millisecond_at_most_when_another_one_comes(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    for number, now in ((1, 100.0), (2, 100.0001), (3, 100.0006)):
        link.send_soon(["done", number], now)
    supervisor.reader.read()
    link.send_soon(["done", 4], now=100.0007)
    supervisor.end.setblocking(False)
    with pytest.raises(BlockingIOError):
        supervisor.reader.read()


def test_whatever_else_is_sent_comes_after_results_that_waited(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    link.send_soon(["done", 1], now=100.0)
    link.send_soon(["done", 2], now=100.0001)
    link.send(["tell", 3, b"half"])
    link.send_soon(["done", 3], now=100.0002)
    frames: list[Any] = []
    supervisor.send(["run", []])
    link.next_jobs()  # who waits for jobs keeps nothing back
    while len(frames) < 4:
        frames += supervisor.reader.read() or []
    assert frames == [["done", 1], ["done", 2], ["tell", 3, b"half"], ["done", 3]]


def test_a_result_that_does_not_fit_into_the_page_is_sent_after_those_before_it(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    link.send_soon(["done", 1], now=100.0)
    link.send_soon(["done", 2], now=100.0001)
    link.send_soon(["done", 3, b"x" * SHELF], now=100.0002)
    frames: list[Any] = []
    while len(frames) < 3:
        frames += supervisor.reader.read() or []
    assert [frame[1] for frame in frames] == [1, 2, 3]


def test_a_child_that_waits_is_not_woken_when_its_result_is_taken(
    pair: tuple[Supervisor, Link],
) -> None:
    supervisor, link = pair
    link.send(["done", 1])
    thread = threading.Thread(target=link.next_jobs)
    thread.start()
    status = Path(f"/proc/self/task/{thread.native_id}/status")

    def sleeps() -> int:
        return int(status.read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    eventually(lambda: status.read_text().split("State:")[1].split()[0] == "S")
    before = sleeps()
    assert supervisor.reader.read() == [["done", 1]]
    time.sleep(0.05)
    assert sleeps() == before
    supervisor.end.shutdown(socket.SHUT_WR)
    thread.join(10.0)
    assert not thread.is_alive()
